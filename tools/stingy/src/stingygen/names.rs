//! Names of objects and stages in the generated code.

/// The enumerator of an object.
pub(crate) fn object(name: &str) -> String {
    format!("STINGY_{}", identifier(name))
}

/// The enumerator of a stage.
pub(crate) fn stage(name: &str) -> String {
    format!("STINGY_STAGE_{}", identifier(name))
}

/// Replaces characters that identifiers cannot contain, as in `connection.buffer`.
fn identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
