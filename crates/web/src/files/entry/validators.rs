//! Validators of files: entity tags (RFC 9110 §8.8.3) and times of modification.
//!
//! Two different contents never have the same strong tag, even if a file replaces another one with the same length and
//! modification time, as reproducible builds produce them.

use phalanx::fs::Metadata;
use phalanx_http::Coding;
use ring::digest::{SHA256, digest};

use crate::clock::unix_seconds;

/// Nanoseconds per second.
const SECOND_NS: i128 = 1_000_000_000;

/// The entity tag of a version of a file. `bytes` is its content if it is in memory.
///
/// The tag of a content in memory is its hash, which is the same on all servers and after a restart.
///
/// Larger files are not read until they are sent, so their tag consists of length and modification time. Tools that set
/// this time use whole seconds, which the clock very rarely produces. The tag for such a time also contains the change
/// time, which no tool can set.
pub(super) fn file_tag(metadata: Metadata, bytes: Option<&[u8]>) -> String {
    // A file that was changed within the current second may change again without a change of time and length. Until the
    // second has passed, its tag is weak (RFC 9110 §8.8.1).
    let weak = if is_fresh(seconds(metadata)) { "W/" } else { "" };
    let Metadata { length, modified_ns, changed_ns, .. } = metadata;
    match bytes {
        Some(bytes) => format!("{weak}\"{:x}-{length:x}\"", hash(bytes)),
        None if modified_ns % SECOND_NS == 0 => {
            format!("{weak}\"{modified_ns:x}-{changed_ns:x}-{length:x}\"")
        }
        None => format!("{weak}\"{modified_ns:x}-{length:x}\""),
    }
}

/// The first 8 bytes of the content's SHA-256.
fn hash(bytes: &[u8]) -> u64 {
    let digest = digest(&SHA256, bytes);
    digest.as_ref().iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

/// The tag for another encoding. No two representations share a tag (RFC 9110 §8.8.3.3), nor do two results
/// of compression that differ in length.
pub(super) fn with_coding(etag: &str, length: u64, coding: Coding) -> String {
    let tag = etag.strip_suffix('"').unwrap_or(etag);
    format!("{tag}-{length:x}-{}\"", coding.name())
}

/// The modification time in seconds since 1970.
pub(super) fn seconds(metadata: Metadata) -> u64 {
    u64::try_from(metadata.modified_ns / SECOND_NS).unwrap_or(0)
}

/// The time for `Last-Modified`, which is not later than `Date` (RFC 9110 §8.8.2.1).
pub(super) fn last_modified(modified: u64) -> u64 {
    modified.min(unix_seconds())
}

/// Whether a file with this modification time may change again and keep the time.
pub(super) fn is_fresh(modified: u64) -> bool {
    unix_seconds() <= modified + 1
}
