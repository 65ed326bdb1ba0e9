//! Replays of a trace in chunks, and results to compare.

use paceline_core::{Buffer, Columns, Config, Error, Outcome, Stream, Trace};

/// The columns by name, as bits; those that a replay does not have are left out, and those that are 0 for all requests, too.
pub fn bits(parts: Vec<Columns>) -> Vec<(&'static str, Vec<u64>)> {
    let mut joined: Vec<(&'static str, Vec<u64>)> = Vec::new();
    for part in parts {
        let rows = part.status.len();
        for (at, (name, buffer)) in part.into_buffers().into_iter().enumerate() {
            let mut values: Vec<u64> = match buffer {
                Buffer::U64(values) => values,
                Buffer::U32(values) => values.into_iter().map(u64::from).collect(),
                Buffer::F64(values) => values.into_iter().map(f64::to_bits).collect(),
                Buffer::U8(values) => values.into_iter().map(u64::from).collect(),
            };
            values.resize(rows, 0);
            match joined.get_mut(at) {
                Some((_, column)) => column.extend(values),
                None => joined.push((name, values)),
            }
        }
    }
    joined.retain(|(_, column)| column.iter().any(|&value| value != 0));
    joined
}

/// How a trace is replayed: of so many rows, so many at a time.
pub struct Cut {
    pub all: usize,
    pub chunk: usize,
    /// Whether each chunk is given to a replay that resumes from the state of the one before.
    pub resumes: bool,
}

/// Replays a trace that `rows` cuts, and takes requests out as soon as that is possible.
pub fn replay(
    config: &Config,
    rows: impl Fn(std::ops::Range<usize>) -> Trace,
    Cut { all, chunk, resumes }: Cut,
) -> Result<(Vec<Columns>, Outcome), Error> {
    let mut stream = Stream::new(config.clone(), rows(0..0), None)?;
    let (mut parts, mut given) = (Vec::new(), 0);
    while !stream.is_done() {
        if stream.advance(7)? && !stream.is_done() {
            if resumes {
                stream = Stream::resume(config.clone(), rows(0..0), &stream.checkpoint()?)?;
            }
            let next = (given + chunk).min(all);
            stream.extend(rows(given..next))?;
            if next == given {
                stream.end_trace();
            }
            given = next;
        }
        parts.push(stream.take_ended(1));
    }
    // A replay that stops early has rows that never arrived.
    stream.extend(rows(given..all))?;
    parts.push(stream.take_ended(1));
    parts.retain(|part| !part.status.is_empty());
    Ok((parts, stream.into_outcome()))
}
