//! The decision in the answer of a service.

use serde_json::Value;

/// The decision in an answer: a status, a JSON object with `result` or `ok`, or a word.
pub(super) fn decision(status: u16, body: &[u8]) -> Result<bool, String> {
    match status {
        200..300 => (),
        408 | 429 => return Err(format!("status {status}")),
        400..500 => return Ok(false),
        _ => return Err(format!("status {status}")),
    }
    let text = str::from_utf8(body).unwrap_or_default().trim();
    let word = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(fields)) => {
            let field = ["result", "ok", "Ok"].into_iter().find_map(|name| fields.get(name));
            match field {
                Some(Value::Bool(allowed)) => allowed.to_string(),
                Some(Value::String(word)) => word.clone(),
                _ => String::new(),
            }
        }
        _ if text.is_empty() && body.is_empty() => "allow".into(),
        _ => text.to_owned(),
    };
    match &*word.to_ascii_lowercase() {
        "allow" | "ok" | "true" => Ok(true),
        "deny" | "ignore" | "false" => Ok(false),
        _ => {
            Err("expected an empty body, {\"result\": \"allow\"} or {\"result\": \"deny\"}".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions() {
        for (status, body, wanted) in [
            (200, "", Some(true)),
            (204, "", Some(true)),
            (200, r#"{"result": "allow", "is_superuser": false}"#, Some(true)),
            (200, r#"{"result": "deny"}"#, Some(false)),
            (200, r#"{"result": "ignore"}"#, Some(false)),
            (200, r#"{"Ok": true, "Error": ""}"#, Some(true)),
            (200, r#"{"ok": false}"#, Some(false)),
            (200, "ok\n", Some(true)),
            (200, "deny", Some(false)),
            (200, " ", None),
            (200, "{}", None),
            (200, r#"{"result": 1}"#, None),
            (200, "<html>Log in</html>", None),
            (401, "", Some(false)),
            (403, "ok", Some(false)),
            (404, "", Some(false)),
            (302, "", None),
            (408, "", None),
            (429, "", None),
            (500, "", None),
            (503, "ok", None),
        ] {
            assert_eq!(decision(status, body.as_bytes()).ok(), wanted, "{status} {body}");
        }
    }
}
