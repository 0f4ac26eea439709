//! An error that the server has reported.

use std::fmt;

/// An error that the server has reported, with the fields of its message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseError {
    severity: String,
    code: String,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    table: Option<String>,
    column: Option<String>,
    constraint: Option<String>,
    /// The function of the server that has reported it.
    routine: Option<String>,
}

impl std::error::Error for DatabaseError {}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, code, message, detail, hint, .. } = self;
        write!(f, "{severity} {code}: {message}")?;
        for (name, text) in [("detail", detail), ("hint", hint)] {
            if let Some(text) = text {
                write!(f, "; {name}: {text}")?;
            }
        }
        Ok(())
    }
}

impl DatabaseError {
    /// The error of a message with these fields, which may be cut.
    pub(crate) fn new(mut fields: &[u8]) -> Self {
        let mut error = Self::default();
        while let [tag, rest @ ..] = fields
            && *tag != 0
        {
            let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
            let text = String::from_utf8_lossy(&rest[..end]).into_owned();
            fields = rest.get(end + 1..).unwrap_or_default();
            match tag {
                // `V` is not translated. Servers before 9.6 send `S` only, which precedes it.
                b'S' | b'V' => error.severity = text,
                b'C' => error.code = text,
                b'M' => error.message = text,
                b'D' => error.detail = Some(text),
                b'H' => error.hint = Some(text),
                b't' => error.table = Some(text),
                b'c' => error.column = Some(text),
                b'n' => error.constraint = Some(text),
                b'R' => error.routine = Some(text),
                _ => {}
            }
        }
        error
    }

    /// The five characters of the
    /// [SQLSTATE code](https://www.postgresql.org/docs/current/errcodes-appendix.html).
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Details of the message.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Advice.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The table concerned.
    pub fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    /// The column concerned.
    pub fn column(&self) -> Option<&str> {
        self.column.as_deref()
    }

    /// The constraint that was violated.
    pub fn constraint(&self) -> Option<&str> {
        self.constraint.as_deref()
    }

    /// Whether a row with the same key exists.
    pub fn is_unique_violation(&self) -> bool {
        self.code == "23505"
    }

    /// Whether the server has ended the connection with this error.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(&*self.severity, "FATAL" | "PANIC")
    }

    /// Whether an operator or another crash has ended the connection, so that no statement is to blame.
    pub(crate) fn is_intervention(&self) -> bool {
        matches!(&*self.code, "57P01" | "57P02" | "57P03" | "57P05")
    }

    /// Whether the prepared statement is unknown or out of date, so that it has to be prepared again. The code of a
    /// statement may raise the same errors when it is executed.
    pub(crate) fn is_stale_statement(&self) -> bool {
        match &*self.code {
            "26000" => true,
            // The message "cached plan must not change result type" may be translated.
            "0A000" => self.routine.as_deref() == Some("RevalidateCachedQuery"),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_up_to_the_end_even_if_they_are_cut() {
        let fields = b"SFEHLER\0VERROR\0C0A000\0MPlan ist veraltet\0RRevalidateCachedQuery\0\0";
        let error = DatabaseError::new(fields);
        assert_eq!(error.to_string(), "ERROR 0A000: Plan ist veraltet");
        assert!(error.is_stale_statement());
        for length in 0..fields.len() {
            let cut = DatabaseError::new(&fields[..length]);
            assert!(error.message().starts_with(cut.message()), "{length}");
        }
        assert!(!DatabaseError::new(b"C0A000\0Mcannot do that\0\0").is_stale_statement());
    }
}
