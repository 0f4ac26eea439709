//! A cache of response fields as h2's types: most fields were sent before.
//!
//! Cloning a cached value increments a reference count; creating one calls the allocator. The cache has a
//! fixed size: two fields that map to the same entry replace each other.

use std::cell::RefCell;
use std::io;

use http::{HeaderName, HeaderValue};

/// Entries per processor; a power of two.
const CACHE_ENTRIES: usize = 1024;
/// Longest cached value, in bytes.
const MAX_CACHED_VALUE_BYTES: usize = 128;

type Field = (HeaderName, HeaderValue);

thread_local! {
    static FIELDS: RefCell<Vec<Option<Field>>> = const { RefCell::new(Vec::new()) };
}

/// Returns the field `name: value`.
///
/// # Errors
/// If the name or the value is invalid.
pub(super) fn field(name: &[u8], value: &[u8]) -> io::Result<Field> {
    if value.len() > MAX_CACHED_VALUE_BYTES {
        return made(name, value);
    }
    FIELDS.with_borrow_mut(|fields| {
        if fields.is_empty() {
            fields.resize(CACHE_ENTRIES, None);
        }
        let kept = &mut fields[index(name, value)];
        if let Some((known, content)) = kept
            && content.as_bytes() == value
            && known.as_str().as_bytes().eq_ignore_ascii_case(name)
        {
            return Ok((known.clone(), content.clone()));
        }
        let field = made(name, value)?;
        *kept = Some(field.clone());
        Ok(field)
    })
}

fn made(name: &[u8], value: &[u8]) -> io::Result<Field> {
    let name = HeaderName::from_bytes(name).map_err(io::Error::other)?;
    Ok((name, HeaderValue::from_bytes(value).map_err(io::Error::other)?))
}

/// Index of a field's entry. Collisions cannot be provoked by clients, because the fields are the server's.
fn index(name: &[u8], value: &[u8]) -> usize {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let words = value.chunks_exact(8);
    let rest =
        words.remainder().iter().fold(name.len() as u64, |rest, &byte| rest << 8 | u64::from(byte));
    let hash = words.fold(rest, |hash, word| {
        let hash = mix(hash, u64::from_le_bytes(word.try_into().expect("eight")));
        hash ^ hash >> 32
    });
    (mix(hash, 0) >> 48) as usize % CACHE_ENTRIES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_cached() {
        let values: Vec<_> =
            (0..4 * CACHE_ENTRIES).map(|n| format!("value {n}, and {n} again")).collect();
        for _ in 0..2 {
            for value in &values {
                for name in ["ETag", "Date", "X-Date"] {
                    let (known, content) = field(name.as_bytes(), value.as_bytes()).unwrap();
                    assert_eq!(known.as_str(), name.to_ascii_lowercase());
                    assert_eq!(content, value);
                }
            }
        }
        assert_eq!(FIELDS.with_borrow(Vec::len), CACHE_ENTRIES);
    }

    #[test]
    fn invalid_fields_are_rejected_each_time() {
        for _ in 0..2 {
            assert!(field(b"a b", b"c").is_err());
            assert!(field(b"a", b"b\n").is_err());
        }
    }

    #[test]
    fn short_values_spread() {
        let places: std::collections::HashSet<_> = (0..CACHE_ENTRIES)
            .map(|n| index(b"Content-Length", n.to_string().as_bytes()))
            .collect();
        assert!(places.len() > CACHE_ENTRIES / 2, "{}", places.len());
    }
}
