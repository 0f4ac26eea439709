//! Users and password hashes in `htpasswd` format: one line `name:hash` per user.
//!
//! Only bcrypt is accepted (`htpasswd -B`). A graphics card tests billions of guesses per second against the
//! other formats: apr1 and crypt are based on MD5 and DES, and {SHA} has no salt. A leaked file would reveal
//! passwords that people also use elsewhere. Such a file is therefore rejected, with instructions how to
//! recreate it, rather than accepted with a warning.

use std::collections::HashMap;
use std::path::Path;

use bcrypt::HashParts;

use crate::error::{FileError, LineError};

/// Accepted bcrypt costs. Bcrypt starts at 4; above 14, one verification takes more than a second.
const COSTS: std::ops::RangeInclusive<u32> = 4..=14;

/// The users of a file in `htpasswd` format.
#[derive(PartialEq, Eq)]
pub struct Htpasswd {
    hashes: HashMap<Box<[u8]>, Box<str>>,
    /// A hash that matches no password, with the highest cost in the file. It is verified for unknown users.
    decoy: Box<str>,
}

impl Htpasswd {
    /// Reads a password file. May block.
    ///
    /// # Errors
    /// [`FileError`] with the lines of all errors, and the remedy.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read(path).map_err(FileError::io("read", path))?;
        Self::parse(&text).map_err(|errors| FileError::Invalid { path: path.into(), errors })
    }

    /// Parses the lines. Empty lines and lines that begin with `#` are ignored.
    ///
    /// # Errors
    /// All errors, at least one.
    pub fn parse(text: &[u8]) -> Result<Self, Vec<LineError>> {
        let (mut hashes, mut errors) = (HashMap::new(), Vec::new());
        let mut cost = *COSTS.start();
        for (n, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let mut report = |message| errors.push(LineError { line: n + 1, column: 1, message });
            match user(line) {
                Ok((name, hash, own_cost)) => {
                    cost = cost.max(own_cost);
                    if hashes.insert(name.into(), hash.into()).is_some() {
                        report(format!("duplicate user {}", quoted(name)));
                    }
                }
                Err(message) => report(message),
            }
        }
        if hashes.is_empty() && errors.is_empty() {
            let message = "no users; create one with `htpasswd -B`".into();
            errors.push(LineError { line: 0, column: 0, message });
        }
        let decoy = format!("$2b${cost:02}${}", ".".repeat(53)).into();
        if errors.is_empty() { Ok(Self { hashes, decoy }) } else { Err(errors) }
    }

    /// Whether this is the user's password. Takes tens of milliseconds. An unknown user takes as long as the
    /// user with the highest cost, so that timing does not reveal which users exist.
    pub fn verify(&self, name: &[u8], password: &[u8]) -> bool {
        let known = self.hashes.get(name);
        let matches = bcrypt::verify(password, known.unwrap_or(&self.decoy)).unwrap_or(false);
        matches && known.is_some()
    }
}

/// Parses a line into name, hash and cost of the hash.
fn user(line: &[u8]) -> Result<(&[u8], &str, u32), String> {
    let mut parts = line.split(|byte| *byte == b':');
    let name = parts.next().unwrap_or_default();
    let Some(hash) = parts.next() else {
        return Err("expected a line `name:hash`, as written by `htpasswd -B`".into());
    };
    if name.is_empty() || name.iter().any(u8::is_ascii_control) {
        return Err(format!("found {}, expected a user name", quoted(name)));
    }
    let weak = |kind: &str| {
        format!(
            "the password of {} is {kind}, which is easy to crack; expected bcrypt: set it again with \
             `htpasswd -B`",
            quoted(name)
        )
    };
    let hash = str::from_utf8(hash).unwrap_or_default();
    match hash {
        _ if ["$2y$", "$2b$", "$2a$"].iter().any(|prefix| hash.starts_with(prefix)) => (),
        _ if hash.starts_with("$apr1$") || hash.starts_with("$1$") => {
            return Err(weak("hashed with MD5"));
        }
        _ if hash.starts_with("{SHA}") => return Err(weak("hashed with SHA-1, without salt")),
        _ if hash.starts_with('$') => return Err(weak("hashed with an unsupported algorithm")),
        _ => return Err(weak("hashed with DES, or not at all")),
    }
    let Ok(parts) = hash.parse::<HashParts>() else {
        return Err(format!("the hash of {} is invalid", quoted(name)));
    };
    let cost = parts.get_cost();
    if !COSTS.contains(&cost) {
        let (min, max) = (COSTS.start(), COSTS.end());
        let name = quoted(name);
        return Err(format!("the hash of {name} has cost {cost}, expected {min} to {max}"));
    }
    Ok((name, hash, cost))
}

fn quoted(name: &[u8]) -> String {
    format!("\"{}\"", name.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(password: &str) -> String {
        bcrypt::hash_with_salt(password, 4, [7; 16])
            .unwrap()
            .format_for_version(bcrypt::Version::TwoY)
    }

    #[test]
    fn passwords_are_verified() {
        let text = format!("# people\n\n eve:{}:comment\r\nadam:{}", hash("apple"), hash("rib"));
        let users = Htpasswd::parse(text.as_bytes()).ok().unwrap();
        // (name, password, right)
        let table = [
            ("eve", "apple", true),
            ("adam", "rib", true),
            ("eve", "rib", false),
            ("eve", "", false),
            ("Eve", "apple", false),
            ("", "apple", false),
            ("snake", "apple", false),
            ("snake", "", false),
        ];
        for (name, password, expected) in table {
            assert_eq!(users.verify(name.as_bytes(), password.as_bytes()), expected, "{name}");
        }
    }

    /// Verifying an unknown user takes as long as the costliest known one.
    #[test]
    fn unknown_users_take_as_long_as_known_ones() {
        let costly = hash("x").replacen("$04$", "$09$", 1);
        let users =
            Htpasswd::parse(format!("a:{}\nb:{costly}", hash("y")).as_bytes()).ok().unwrap();
        assert_eq!(users.decoy.parse::<HashParts>().unwrap().get_cost(), 9);
    }

    #[test]
    fn invalid_lines_are_reported() {
        let valid = hash("x");
        // (text, line, message)
        let table = [
            ("".to_owned(), 0, "no users"),
            ("eve".to_owned(), 1, "expected a line `name:hash`"),
            ("\n:x".to_owned(), 2, "expected a user name"),
            (format!("e\x07ve:{valid}"), 1, "\\x07"),
            (format!("eve:{valid}\neve:{valid}"), 2, "duplicate"),
            ("eve:$apr1$l3jMlOmB$kJZkRpCOYyEO5CtV.Ilcs1".to_owned(), 1, "MD5"),
            ("eve:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=".to_owned(), 1, "SHA-1"),
            ("eve:$6$rounds=5000$x$y".to_owned(), 1, "unsupported"),
            ("eve:rqXexS6ZhobKA".to_owned(), 1, "DES"),
            ("eve:apple".to_owned(), 1, "htpasswd -B"),
            ("eve:$2y$04$short".to_owned(), 1, "invalid"),
            (format!("eve:{}", valid.replacen("$04$", "$17$", 1)), 1, "cost 17"),
        ];
        for (text, line, expected) in table {
            let errors = Htpasswd::parse(text.as_bytes()).err().unwrap();
            assert_eq!(errors.len(), 1, "{text}");
            assert!(errors[0].line == line && errors[0].message.contains(expected), "{errors:?}");
        }
    }
}
