//! Values of fields in a configuration, and its errors.

/// Errors: keys within the host's table, with messages.
pub(super) type RuleErrors = Vec<(String, String)>;

/// An error in a rule: a key of the rule, with a message.
pub(super) type RuleError = (&'static str, String);

/// Checks the value of a field.
pub(super) fn is_value(value: &str) -> Result<(), String> {
    let visible = |c: char| c == '\t' || !c.is_control();
    match !value.is_empty() && value.chars().all(visible) && value.trim() == value {
        true => Ok(()),
        false => Err(format!("found {value:?}, expected a field value on one line")),
    }
}

/// Fields that only the server may set.
const SERVER_FIELDS: [&str; 16] = [
    "accept-ranges",
    "allow",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "location",
    "server",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Checks a field that a rule adds.
pub(super) fn is_field(name: &str, value: &str) -> Result<(), RuleError> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err(("name", format!("found {name:?}, expected a field name")));
    }
    if SERVER_FIELDS.contains(&&name.to_ascii_lowercase()[..]) {
        return Err(("name", format!("{name} is set by the server itself")));
    }
    is_value(value).map_err(|message| ("value", message))
}
