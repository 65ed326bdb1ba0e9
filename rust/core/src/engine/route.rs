//! Which instance an arrival joins.

use crate::config::Routing;
use crate::instance::Instance;
use crate::metrics::Reason;
use crate::time::Ticks;

#[derive(Debug)]
pub(crate) struct Router {
    rule: Routing,
    next: usize,
    /// Requests sent to each instance and not finished.
    outstanding: Vec<u64>,
    /// Whether every instance refuses the same requests.
    uniform: bool,
}

impl Router {
    pub(crate) fn new(rule: Routing, instances: &[Instance]) -> Self {
        let uniform = instances.iter().all(|instance| instance.refuses_like(&instances[0]));
        Self { rule, next: 0, outstanding: vec![0; instances.len()], uniform }
    }

    /// Picks among the instances that could serve the request, as each was
    /// when its last step ended.
    ///
    /// # Errors
    ///
    /// The reason, if none could ever serve it. A turn is not used up then.
    pub(crate) fn pick(
        &mut self,
        prompt: u32,
        output: u32,
        now: Ticks,
        instances: &[Instance],
    ) -> Result<usize, Reason> {
        let reason = instances[0].refuses(prompt, output);
        if self.uniform && reason != Reason::None {
            return Err(reason);
        }
        let n = instances.len();
        let uniform = self.uniform;
        let serves = |i: &usize| uniform || instances[*i].refuses(prompt, output) == Reason::None;
        let picked = match self.rule {
            Routing::RoundRobin => (self.next..n).chain(0..self.next).find(serves),
            Routing::FewestRequests => (0..n).filter(serves).min_by_key(|&i| self.outstanding[i]),
            Routing::FewestTokens => fewest_tokens(instances, (0..n).filter(serves), now),
        };
        let Some(index) = picked else {
            let all = instances.iter().map(|instance| instance.refuses(prompt, output));
            // Memory is the lesser fault: someone could have held the context.
            return Err(all.max_by_key(|reason| *reason as u8).unwrap_or(reason));
        };
        self.next = if index + 1 == n { 0 } else { index + 1 };
        self.outstanding[index] += 1;
        Ok(index)
    }

    #[inline]
    pub(crate) fn finished(&mut self, index: usize, requests: u64) {
        self.outstanding[index] -= requests;
    }
}

/// The candidate with the fewest outstanding tokens. What an instance had when
/// its run began is a lower bound, and mostly settles it without asking how far
/// the run has come.
fn fewest_tokens(
    instances: &[Instance],
    candidates: impl Iterator<Item = usize>,
    now: Ticks,
) -> Option<usize> {
    let mut fewest = None;
    for i in candidates {
        if fewest.is_some_and(|(_, tokens)| instances[i].outstanding_tokens_at_least() >= tokens) {
            continue;
        }
        let tokens = instances[i].outstanding_tokens(now);
        if fewest.is_none_or(|(_, least)| tokens < least) {
            fewest = Some((i, tokens));
        }
    }
    fewest.map(|(i, _)| i)
}
