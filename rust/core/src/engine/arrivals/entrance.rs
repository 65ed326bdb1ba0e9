//! The way of requests from their source to the routers: through the front end, and past a predictor.

use super::numbering::Numbering;
use super::predictor::Predictor;
use super::retries::Retries;
use super::sent::Sent;
use super::source::Source;
use super::submitted::Submitted;
use crate::checkpoint::{Checkpointed, Reader, Writer, refuse};
use crate::config::{Entrance as Rules, Patience};
use crate::error::Error;
use crate::hint::rare;
use crate::metrics::{Recorder, Status};
use crate::time::{NEVER, Ticks};
use crate::trace::{RequestNumber, Trace};

/// How requests are to be sent.
pub(in crate::engine) enum Sending {
    /// As the trace's column of arrivals says.
    Trace,
    /// The same, of a trace whose rows follow as it is replayed.
    Stream,
    /// By a source.
    Source(Box<dyn Source>),
    /// As they are submitted from outside.
    Outside,
}

/// The sender of the requests.
#[derive(Debug)]
enum Sender {
    /// The trace's column of arrivals, from this row on.
    Column(usize),
    /// A source that may react to the ends of requests, and the numbers of those that have arrived.
    Source(Box<dyn Source>, Numbering),
    /// Requests that are submitted from outside.
    Outside(Submitted, Numbering),
}

impl Checkpointed for Sender {
    fn save(&self, to: &mut Writer) -> Result<(), Error> {
        match self {
            Self::Column(next) => to.value(next),
            other => refuse(other.source(), "requests that are not sent by a column of the trace"),
        }
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Error> {
        *self = Self::Column(from.value()?);
        Ok(())
    }
}

impl Sender {
    /// The source, if the requests have one.
    fn source(&self) -> Option<&dyn Source> {
        match self {
            Self::Column(_) => None,
            Self::Source(source, _) => Some(&**source),
            Self::Outside(submitted, _) => Some(submitted),
        }
    }

    /// The same, to send and to observe.
    fn source_mut(&mut self) -> Option<&mut dyn Source> {
        match self {
            Self::Column(_) => None,
            Self::Source(source, _) => Some(&mut **source),
            Self::Outside(submitted, _) => Some(submitted),
        }
    }
}

/// The source of a replay's requests, and the stages that they pass on their way to the routers.
#[derive(Debug)]
pub(in crate::engine) struct Entrance {
    sender: Sender,
    /// Ticks in the front end, and for predictions that are made at once.
    delay: Ticks,
    /// The part of these for predictions.
    prediction: Ticks,
    /// The predictor, if it scores requests one after another.
    predictor: Option<Predictor>,
    /// When a request arrives next, or reaches the predictor.
    next: Ticks,
    /// When the request that arrived last was sent.
    sent: Ticks,
    /// Requests that are sent again, if any are.
    retries: Option<Box<Retries>>,
}

crate::checkpoint::checkpointed!(Entrance {
    values: next, sent;
    parts: sender, predictor;
    fixed: delay, prediction;
    absent: retries;
});

impl Entrance {
    /// The way in under these rules.
    pub(in crate::engine) fn new(rules: &Rules, sending: Sending, trace: &mut Trace) -> Self {
        let (serial, at_once) = match rules.prediction {
            Some(prediction) if prediction.serial => (Some(prediction), 0),
            Some(prediction) => (None, prediction.once.saturating_add(prediction.each)),
            None => (None, 0),
        };
        let sender = match sending {
            Sending::Source(source) => Sender::Source(source, Numbering::new(trace)),
            Sending::Outside => Sender::Outside(Submitted::default(), Numbering::new(trace)),
            Sending::Trace | Sending::Stream => Sender::Column(0),
        };
        let mut entrance = Self {
            sender,
            delay: rules.frontend.saturating_add(at_once),
            prediction: at_once,
            predictor: serial.map(Predictor::new),
            next: NEVER,
            sent: 0,
            retries: None,
        };
        entrance.next = entrance.next_event(trace);
        entrance
    }

    /// Has requests sent again by these rules, of clients that wait for their ends.
    pub(in crate::engine) fn repeat_by(&mut self, rules: Option<Patience>, trace: &Trace) {
        let rules = rules.filter(|rules| rules.retries > 0);
        self.retries = rules.map(|rules| Box::new(Retries::new(rules, trace.len())));
    }

    /// Whether requests may be sent again.
    pub(in crate::engine) fn repeats(&self) -> bool {
        self.retries.is_some()
    }

    /// When the request that arrived last was sent.
    pub(in crate::engine) fn sent(&self) -> Ticks {
        self.sent
    }

    /// When a request arrives next, or reaches the predictor; [`NEVER`] if none will unless another ends.
    pub(in crate::engine) fn next(&self) -> Ticks {
        self.next
    }

    fn next_event(&self, trace: &Trace) -> Ticks {
        let entry = self.next_entry(trace);
        self.predictor.as_ref().map_or(entry, |predictor| entry.min(predictor.next()))
    }

    /// When the next request has passed the front end.
    fn next_entry(&self, trace: &Trace) -> Ticks {
        let sent = match &self.sender {
            Sender::Column(row) => trace.arrival.get(*row).copied().unwrap_or(NEVER),
            other => other.source().map_or(NEVER, Source::next).min(self.next_again()),
        };
        sent.saturating_add(self.delay)
    }

    /// When a request is sent again next.
    fn next_again(&self) -> Ticks {
        self.retries.as_ref().map_or(NEVER, |retries| retries.next())
    }

    /// Removes the next request that arrives at `now`. Returns its number, which is its row in the columns from here on:
    /// requests are numbered as they arrive.
    pub(in crate::engine) fn take(
        &mut self,
        now: Ticks,
        trace: &mut Trace,
        recorder: &mut Recorder,
    ) -> Option<usize> {
        if let (Sender::Column(next), 0, None) = (&mut self.sender, self.delay, &self.predictor) {
            let row = *next;
            *next += 1;
            self.next = trace.arrival.get(row + 1).copied().unwrap_or(NEVER);
            self.sent = now;
            return Some(row);
        }
        rare();
        self.take_staged(now, trace, recorder)
    }

    /// As [`Self::take`], through stages or from a source.
    #[inline(never)]
    fn take_staged(&mut self, now: Ticks, trace: &mut Trace, recorder: &mut Recorder) -> Option<usize> {
        let sent =
            if self.predictor.is_some() { self.pass_predictor(now, trace) } else { self.enter(now, trace) };
        let more = self.predictor.as_ref().is_some_and(Predictor::has_scored);
        self.next = if more { now } else { self.next_event(trace) };
        let sent = sent?;
        self.sent = sent.at;
        let number = match &mut self.sender {
            Sender::Column(_) => sent.row as usize,
            Sender::Source(_, numbering) | Sender::Outside(_, numbering) => {
                let number = numbering.arrive(sent.row, trace);
                if trace.len() > recorder.columns.status.len() {
                    recorder.grow(1);
                }
                recorder.columns.arrival[number] = sent.at;
                number
            }
        };
        trace.arrival[number] = now;
        if let Some(prediction) = recorder.columns.prediction.get_mut(number) {
            *prediction = now - sent.entered + self.prediction;
        }
        Some(number)
    }

    /// Takes the requests that have passed the front end by `now` to the predictor, and returns the next that has left it.
    fn pass_predictor(&mut self, now: Ticks, trace: &Trace) -> Option<Sent> {
        while let Some(sent) = self.enter(now, trace) {
            self.predictor.as_mut()?.enter(sent);
        }
        let predictor = self.predictor.as_mut()?;
        predictor.advance(now);
        predictor.leave()
    }

    /// Removes and returns the next request that has passed the front end by `now`.
    fn enter(&mut self, now: Ticks, trace: &Trace) -> Option<Sent> {
        let entered = self.next_entry(trace);
        if entered > now {
            return None;
        }
        // A request that is sent again at the same moment as another is the first.
        let again = self.retries.as_mut().filter(|retries| entered - self.delay == retries.next());
        if let Some(row) = again.and_then(|retries| retries.send()) {
            return Some(Sent { row, at: entered - self.delay, entered });
        }
        let row = match &mut self.sender {
            Sender::Column(next) => {
                *next += 1;
                (*next - 1) as u32
            }
            other => other.source_mut()?.send(),
        };
        Some(Sent { row, at: entered - self.delay, entered })
    }

    /// Tells the source that a request has ended at `now`, unless it is sent `again`, if it may be.
    pub(in crate::engine) fn end(
        &mut self,
        number: u32,
        (status, again): (Status, bool),
        now: Ticks,
        trace: &Trace,
    ) {
        let repeats = self.retries.as_mut().filter(|_| again);
        if repeats.is_some_and(|retries| retries.end(trace.origin(RequestNumber(number)).0, now)) {
            // Its client waits on.
        } else if let Some(source) = self.sender.source_mut() {
            source.end(trace.origin(RequestNumber(number)).0, status, now);
        }
        self.next = self.next_event(trace);
    }

    /// How many requests have been sent and may still be sent.
    pub(in crate::engine) fn expected(&self, trace: &Trace) -> u64 {
        match &self.sender {
            Sender::Column(_) => trace.len() as u64,
            other => {
                let again = self.retries.as_ref().map_or(0, |retries| retries.all());
                other.source().map_or(0, Source::expected).saturating_add(again)
            }
        }
    }

    /// Adds requests that are submitted, the last ones of the trace.
    pub(in crate::engine) fn submit(&mut self, arrivals: &[Ticks], trace: &Trace) {
        if let Sender::Outside(submitted, numbering) = &mut self.sender {
            submitted.push(arrivals);
            numbering.grow(arrivals.len());
        }
        self.next = self.next_event(trace);
    }

    /// Notes that more requests follow in the trace.
    pub(in crate::engine) fn follow(&mut self, trace: &Trace) {
        self.next = self.next_event(trace);
    }

    /// Ends the submissions.
    pub(in crate::engine) fn close(&mut self) {
        if let Sender::Outside(submitted, _) = &mut self.sender {
            submitted.close();
        }
    }

    /// By row of submission: its place in the result, if requests are submitted.
    pub(in crate::engine) fn places(&self) -> Option<Vec<u32>> {
        match &self.sender {
            Sender::Outside(submitted, _) => Some(submitted.places()),
            Sender::Column(_) | Sender::Source(..) => None,
        }
    }
}
