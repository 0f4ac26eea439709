//! Values of fields in a configuration, and its errors.

/// Errors: keys within the host's table, with messages.
pub(crate) type Wrong = Vec<(String, String)>;

/// Checks the value of a field.
pub(super) fn is_value(value: &str) -> Result<(), String> {
    let visible = |c: char| c == '\t' || !c.is_control();
    match !value.is_empty() && value.chars().all(visible) && value.trim() == value {
        true => Ok(()),
        false => Err(format!("found {value:?}, expected a field value on one line")),
    }
}
