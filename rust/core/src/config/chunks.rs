//! Chunks of prompts that are cut to whole blocks.

use super::InstanceConfig;
use crate::error::Error;

impl InstanceConfig {
    /// Checks what chunks of whole blocks stand beside, and that one fits into a step.
    pub(super) fn check_chunks(&self, instance: usize) -> Result<(), Error> {
        let rules = &self.scheduler;
        if !rules.whole_block_chunks {
            return Ok(());
        }
        let least = rules.varying.tokens.as_ref().map_or(rules.max_num_batched_tokens, |budget| budget.least);
        let most = match rules.long_prefill_token_threshold {
            0 => least,
            threshold => least.min(threshold),
        };
        if u64::from(self.block_tokens) > most {
            let rule = format!(
                "must be at most the {most} tokens of a chunk where chunks are whole blocks (whole_block_chunks), was {}",
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
}
