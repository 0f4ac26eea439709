//! The token of operators.

use std::fs;
use std::path::Path;

use argon2::password_hash::phc::Output;
use sha2::{Digest, Sha512};

use crate::error::{FileError, LineError};

/// Minimum length of a token, in characters.
const MIN_CHARACTERS: usize = 32;

/// A secret that authenticates operators. It is random and long, so a fast hash protects it.
#[derive(Debug)]
pub struct Token(Output);

impl Token {
    /// Reads a token: the first line of a file. May block.
    ///
    /// # Errors
    /// If the file cannot be read, or the token is too short.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let text = fs::read_to_string(path).map_err(FileError::io("read", path))?;
        let token = text.lines().next().unwrap_or_default().trim();
        if token.chars().count() < MIN_CHARACTERS {
            let message = format!(
                "the token has fewer than {MIN_CHARACTERS} characters; write one with `openssl rand -hex 32`"
            );
            let errors = vec![LineError { line: 1, column: 1, message }];
            return Err(FileError::Invalid { path: path.into(), errors });
        }
        Ok(Self(digest(token)))
    }

    /// Whether `token` is this one. The time does not depend on the position of a difference.
    pub fn is(&self, token: &str) -> bool {
        // Constant-time comparison.
        self.0 == digest(token)
    }
}

fn digest(token: &str) -> Output {
    Output::new(&Sha512::digest(token)).expect("SHA-512 has an allowed length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_token() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let token = "0123456789abcdef0123456789abcdef";
        fs::write(file.path(), format!("{token}\nmore\n")).unwrap();
        let loaded = Token::open(file.path()).unwrap();
        assert!(loaded.is(token) && !loaded.is("") && !loaded.is(&token.replace('f', "e")));
        fs::write(file.path(), "short\n").unwrap();
        assert!(Token::open(file.path()).unwrap_err().to_string().contains("openssl rand"));
    }
}
