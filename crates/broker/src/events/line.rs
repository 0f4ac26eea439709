//! A line of the event log.

use std::fmt::{Display, Write};

/// Maximum number of characters logged of a text from a client.
const MAX_TEXT_CHARACTERS: usize = 256;

/// A line under construction.
pub(crate) struct Line {
    text: String,
    is_json: bool,
}

impl Line {
    /// A line about `event`, which happened at `time`.
    pub(super) fn new(event: &str, time: &str, is_json: bool) -> Self {
        let text = match is_json {
            true => format!("{{\"time\":\"{time}\",\"event\":\"{event}\""),
            false => format!("phalanx: {time} {event}"),
        };
        Self { text, is_json }
    }

    /// Adds a text that may come from a client. The text is quoted, and shortened if it is long.
    pub(crate) fn text(&mut self, name: &str, value: &str) {
        let mut shortened = value;
        let mut rest = "";
        if let Some((end, _)) = value.char_indices().nth(MAX_TEXT_CHARACTERS) {
            (shortened, rest) = (&value[..end], "…");
        }
        let value = format!("{shortened}{rest}");
        self.name(name);
        match self.is_json {
            true => self.text.push_str(&serde_json::Value::from(value).to_string()),
            false => self.put(format_args!("{value:?}")),
        }
    }

    /// Like [`text`](Self::text), if there is a value.
    pub(crate) fn optional(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    /// Adds a value without spaces and quotation marks.
    pub(crate) fn plain(&mut self, name: &str, value: impl Display) {
        self.name(name);
        match self.is_json {
            true => self.put(format_args!("\"{value}\"")),
            false => self.put(format_args!("{value}")),
        }
    }

    pub(crate) fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        self.put(format_args!("{value}"));
    }

    pub(crate) fn flag(&mut self, name: &str, value: bool) {
        self.name(name);
        self.put(format_args!("{value}"));
    }

    /// The complete line, with its line end.
    pub(super) fn finish(mut self) -> String {
        self.text.push_str(if self.is_json { "}\n" } else { "\n" });
        self.text
    }

    fn name(&mut self, name: &str) {
        match self.is_json {
            true => self.put(format_args!(",\"{name}\":")),
            false => self.put(format_args!(" {name}=")),
        }
    }

    fn put(&mut self, value: std::fmt::Arguments<'_>) {
        // Cannot fail: writing to a string always succeeds.
        let _ = self.text.write_fmt(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(is_json: bool, client: &str) -> String {
        let mut line = Line::new("connected", "2026-11-25T08:00:00Z", is_json);
        line.plain("address", "::1");
        line.number("port", 4000);
        line.text("client", client);
        line.optional("user", None);
        line.flag("clean", true);
        line.finish()
    }

    #[test]
    fn text_and_json() {
        let text = "phalanx: 2026-11-25T08:00:00Z connected address=::1 port=4000 client=\"a\" clean=true\n";
        assert_eq!(line(false, "a"), text);
        let json = "{\"time\":\"2026-11-25T08:00:00Z\",\"event\":\"connected\",\"address\":\"::1\",\"port\":4000,\
                    \"client\":\"a\",\"clean\":true}\n";
        assert_eq!(line(true, "a"), json);
    }

    /// A client can neither end a line nor add a field.
    #[test]
    fn text_of_clients_is_escaped_and_shortened() {
        let evil = "x\" address=9.9.9.9\r\n\u{1b}[2J\u{85}";
        for is_json in [false, true] {
            let line = line(is_json, evil);
            assert_eq!(line.lines().count(), 1, "{line:?}");
            assert!(line.contains("x\\\" address") && !line.contains('\u{1b}'), "{line:?}");
        }
        let parsed: serde_json::Value = serde_json::from_str(&line(true, evil)).unwrap();
        assert_eq!(parsed["client"], evil);
        let long = line(false, &"é".repeat(300));
        assert!(long.contains(&format!("\"{}…\"", "é".repeat(256))), "{long}");
    }
}
