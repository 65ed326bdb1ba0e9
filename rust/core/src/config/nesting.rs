//! How deeply a configuration's JSON is nested.
//!
//! Reading JSON takes stack in proportion to its nesting, so the nesting is bounded before anything is read. This bound
//! replaces that of `serde_json`, 128 levels, which an expression of 64 levels would reach.

/// The most levels of arrays and objects. Python allows an expression 100
/// levels, which are 199 here, below at most 34 of rules: see
/// `paceline/policy/limits.py`.
pub(super) const MOST_LEVELS: usize = 256;

/// The deepest level of a JSON text. Of any other text, some number.
pub(super) fn levels(text: &[u8]) -> usize {
    let (mut level, mut deepest) = (0_usize, 0);
    let (mut quoted, mut escaped) = (false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                level += 1;
                deepest = deepest.max(level);
            }
            b']' | b'}' if !quoted => level = level.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_count_and_those_in_strings_do_not() {
        assert_eq!(levels(b"1"), 0);
        assert_eq!(levels(br#"{"a": [1, {"b": []}], "c": {}}"#), 4);
        assert_eq!(levels(br#"{"[[[": "]{\"[["}"#), 1);
    }
}
