//! For fields that are arrays, of which serde knows those of up to 32: `#[serde(with = "crate::checkpoint::array")]`.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes an array as a sequence.
pub(crate) fn serialize<T: Serialize, S: Serializer, const N: usize>(
    values: &[T; N],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    values.as_slice().serialize(serializer)
}

/// Reads an array from a sequence of its length.
pub(crate) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>, const N: usize>(
    deserializer: D,
) -> Result<[T; N], D::Error> {
    let values = Vec::deserialize(deserializer)?;
    let length = values.len();
    values.try_into().map_err(|_| D::Error::invalid_length(length, &"as many values as the array has"))
}
