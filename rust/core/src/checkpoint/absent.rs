//! For optional fields of values that no replay has that can be kept: `#[serde(with = "crate::checkpoint::absent")]`.

use serde::ser::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Refuses a field that is there.
#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
pub(crate) fn serialize<T, S: Serializer>(field: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    match field {
        None => ().serialize(serializer),
        Some(_) => Err(S::Error::custom("it has a part that cannot be kept")),
    }
}

/// Reads that there is none.
pub(crate) fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    <()>::deserialize(deserializer).map(|()| None)
}
