//! The decision in the answer of a service.

use serde_json::Value;

use super::exchange::Answer;

/// The decision in an answer: a status, a JSON object with `result` or `ok`, or a word. If the request contained the
/// broker's `Authorization`, 401 rejects that, and does not decide about the login.
pub(super) fn decision(answer: &Answer, has_authorization: bool) -> Result<bool, String> {
    let Answer { status, body, is_until_close, .. } = answer;
    match status {
        200..300 => (),
        400 | 403 => return Ok(false),
        401 if !has_authorization => return Ok(false),
        _ => return Err(format!("status {status}")),
    }
    if body.is_empty() && *is_until_close {
        return Err("the body is empty without Content-Length: 0, so it may be truncated".into());
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
        let answer = |status, body: &str, is_until_close| Answer {
            status,
            max_age: None,
            body: body.into(),
            is_until_close,
            keep_alive: false,
        };
        for (status, body, expected) in [
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
            (400, "", Some(false)),
            (404, "", None),
            (405, "", None),
            (407, "", None),
            (413, "", None),
            (415, "deny", None),
            (302, "", None),
            (408, "", None),
            (429, "", None),
            (500, "", None),
            (503, "ok", None),
        ] {
            let allowed = decision(&answer(status, body, false), false).ok();
            assert_eq!(allowed, expected, "{status} {body}");
        }
        // The service rejects the broker's own credentials.
        assert!(decision(&answer(401, "", false), true).is_err());
        // An empty body that ends with the connection is no answer.
        assert!(decision(&answer(200, "", true), false).is_err());
        assert_eq!(decision(&answer(200, "ok", true), false), Ok(true));
        assert_eq!(decision(&answer(403, "", true), false), Ok(false));
    }
}
