//! Chunks of prompts that are cut to whole blocks, or charged in them.

use super::InstanceConfig;
use crate::error::Error;

impl InstanceConfig {
    /// Checks what chunks of whole blocks stand beside, and that a block fits into a step if chunks are cut to whole ones.
    pub(super) fn check_chunks(&self, instance: usize) -> Result<(), Error> {
        let rules = &self.scheduler;
        if rules.output_reserve.is_some() && rules.cuts_prompts() {
            self.check_chunk_of_one_block(instance, "prompts are charged in whole blocks (output_reserve)")?;
        }
        if !rules.whole_block_chunks {
            return Ok(());
        }
        self.check_chunk_of_one_block(instance, "chunks are whole blocks (whole_block_chunks)")
    }

    /// Checks that a block fits into a step, and below the threshold of long prompts.
    fn check_chunk_of_one_block(&self, instance: usize, because: &str) -> Result<(), Error> {
        let rules = &self.scheduler;
        let least = rules.varying.tokens.as_ref().map_or(rules.max_num_batched_tokens, |budget| budget.least);
        let most = match rules.long_prefill_token_threshold {
            0 => least,
            threshold => least.min(threshold),
        };
        if u64::from(self.block_tokens) > most {
            let rule = format!(
                "must be at most the {most} tokens of a chunk where {because}, was {}",
                self.block_tokens
            );
            return Err(Error::config(format!("instances[{instance}].block_tokens"), rule));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ReserveConfig;
    use crate::engine::fixtures;

    /// The refusal of an instance with blocks of 4 tokens whose chunks are whole blocks, changed by `change`.
    fn refusal(change: impl Fn(&mut InstanceConfig)) -> Option<String> {
        let config = fixtures::config(&[100], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        let mut instance = config.instances[0].clone();
        instance.block_tokens = 4;
        instance.scheduler.whole_block_chunks = true;
        change(&mut instance);
        instance.check_chunks(3).err().map(|error| error.to_string())
    }

    #[test]
    fn a_chunk_of_one_block_fits_into_each_step() {
        assert_eq!(refusal(|instance| instance.scheduler.max_num_batched_tokens = 4), None);
        let error =
            refusal(|instance| instance.scheduler.max_num_batched_tokens = 3).expect("a chunk never fits");
        let said = "instances[3].block_tokens: must be at most the 3 tokens of a chunk";
        assert!(error.contains(said) && error.contains("was 4"), "{error}");
        assert_eq!(refusal(|instance| instance.scheduler.long_prefill_token_threshold = 4), None);
        let error =
            refusal(|instance| instance.scheduler.long_prefill_token_threshold = 3).expect("likewise");
        assert!(error.contains(said), "{error}");
    }

    #[test]
    fn a_block_fits_into_a_step_that_is_charged_in_whole_ones() {
        let reserved = |tokens| {
            refusal(|instance| {
                let reserve = ReserveConfig { first: 1, least: 1, steps: 1, after: 1, clip: 1 };
                instance.scheduler.whole_block_chunks = false;
                instance.scheduler.output_reserve = Some(reserve);
                instance.scheduler.max_num_batched_tokens = tokens;
            })
        };
        assert_eq!(reserved(4), None);
        let error = reserved(3).expect("a prompt of 4 tokens would never be admitted");
        assert!(
            error.contains("where prompts are charged in whole blocks (output_reserve), was 4"),
            "{error}"
        );
    }
}
