//! Bytes in reports.

use std::fmt::Write as _;

/// Bytes in the syntax of a Rust string, abbreviated if they are long.
pub(crate) fn escape(bytes: &[u8]) -> String {
    const MAX_SHOWN: usize = 1200;
    let mut text = bytes[..bytes.len().min(MAX_SHOWN)].escape_ascii().to_string();
    text = text.replace("\\\'", "'").replace("\\\"", "\"").replace("\\n", "\\n\n      ");
    if bytes.len() > MAX_SHOWN {
        let _ = write!(text, "... ({} bytes)", bytes.len());
    }
    text
}
