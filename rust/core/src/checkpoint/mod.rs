//! The state of a replay as bytes, from which one of the same configuration goes on to the same result.
//!
//! A component's configuration is not kept: a checkpoint is read into components that were built anew. So each component
//! says of each of its fields which it is ([`checkpointed`]):
//!
//! - a *value*, which is kept whole, by serde;
//! - a *part*, a component that keeps its own state;
//! - *fixed*, what follows from the configuration;
//! - *absent*, which no replay has that can be kept: one that has it is refused.
//!
//! A field that is not named does not compile.

pub(crate) mod absent;
pub(crate) mod array;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// Bytes that are written.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Writes a value.
    pub(crate) fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.bytes = postcard::to_extend(value, std::mem::take(&mut self.bytes))
            .map_err(|error| Error::Checkpoint { rule: format!("a value cannot be written: {error}") })?;
        Ok(())
    }

    /// The bytes so far.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Bytes that are read.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Reads the next value.
    pub(crate) fn value<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        let (value, rest) =
            postcard::take_from_bytes(self.bytes).map_err(|error| damaged(&error.to_string()))?;
        self.bytes = rest;
        Ok(value)
    }

    /// Reads a value that the configuration says, too.
    pub(crate) fn expects<T: DeserializeOwned + PartialEq>(
        &mut self,
        value: &T,
        why: &str,
    ) -> Result<(), Error> {
        if self.value::<T>()? == *value { Ok(()) } else { Err(damaged(why)) }
    }

    /// Refuses bytes after the last value.
    pub(crate) fn end(self) -> Result<(), Error> {
        if self.bytes.is_empty() { Ok(()) } else { Err(damaged("there are bytes after its end")) }
    }
}

/// The error of bytes that are no state of such a replay.
pub(crate) fn damaged(why: &str) -> Error {
    Error::Checkpoint {
        rule: format!("must be the state of a replay of this configuration, was damaged: {why}"),
    }
}

/// A component whose state is kept.
pub(crate) trait Checkpointed {
    /// Writes the state.
    ///
    /// # Errors
    ///
    /// If it has something that cannot be kept.
    fn save(&self, to: &mut Writer) -> Result<(), Error>;

    /// Takes the state, as of a component of the same configuration.
    ///
    /// # Errors
    ///
    /// If the bytes are no such state. Then the component must not be used.
    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Error>;
}

impl<T: Checkpointed + ?Sized> Checkpointed for Box<T> {
    fn save(&self, to: &mut Writer) -> Result<(), Error> {
        (**self).save(to)
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Error> {
        (**self).restore(from)
    }
}

/// A component that the configuration may lack.
impl<T: Checkpointed> Checkpointed for Option<T> {
    fn save(&self, to: &mut Writer) -> Result<(), Error> {
        to.value(&self.is_some())?;
        self.as_ref().map_or(Ok(()), |part| part.save(to))
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Error> {
        from.expects(&self.is_some(), "a component is there that the configuration lacks, or is not")?;
        self.as_mut().map_or(Ok(()), |part| part.restore(from))
    }
}

/// As many components as the configuration has.
impl<T: Checkpointed> Checkpointed for Vec<T> {
    fn save(&self, to: &mut Writer) -> Result<(), Error> {
        to.value(&self.len())?;
        self.iter().try_for_each(|part| part.save(to))
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), Error> {
        from.expects(&self.len(), "it has other numbers of components")?;
        self.iter_mut().try_for_each(|part| part.restore(from))
    }
}

/// Refuses what cannot be kept.
pub(crate) fn refuse<T: ?Sized>(absent: Option<&T>, name: &str) -> Result<(), Error> {
    match absent {
        None => Ok(()),
        Some(_) => Err(Error::Checkpoint { rule: format!("a replay that has {name} cannot be kept") }),
    }
}

/// Says of each field of a component which it is.
macro_rules! checkpointed {
    ($component:ident $(<$generic:ident>)? {
        $(values: $($value:ident),+;)?
        $(parts: $($part:ident),+;)?
        $(fixed: $($fixed:ident),+;)?
        $(absent: $($absent:ident),+;)?
    }) => {
        impl $(<$generic: serde::Serialize + serde::de::DeserializeOwned>)? crate::checkpoint::Checkpointed
            for $component $(<$generic>)?
        {
            fn save(&self, to: &mut crate::checkpoint::Writer) -> Result<(), crate::error::Error> {
                let Self { $($($value,)+)? $($($part,)+)? $($($fixed: _,)+)? $($($absent,)+)? } = self;
                let _ = &to;
                $($(crate::checkpoint::refuse($absent.as_ref(), stringify!($absent))?;)+)?
                $($(to.value($value)?;)+)?
                $($(crate::checkpoint::Checkpointed::save($part, to)?;)+)?
                Ok(())
            }

            fn restore(&mut self, from: &mut crate::checkpoint::Reader<'_>) -> Result<(), crate::error::Error> {
                let Self { $($($value,)+)? $($($part,)+)? $($($fixed: _,)+)? $($($absent: _,)+)? } = self;
                let _ = &from;
                $($(*$value = from.value()?;)+)?
                $($(crate::checkpoint::Checkpointed::restore($part, from)?;)+)?
                Ok(())
            }
        }
    };
}

pub(crate) use checkpointed;

#[cfg(test)]
mod tests;
