//! Users and their password hashes: lines of the form `name:hash`.
//!
//! A stolen file must not reveal passwords, which people often reuse. Therefore `phalanx passwd` writes a slow,
//! memory-hard hash. The weaker hashes of mosquitto are accepted for migrations, and reported at the start. All others
//! are rejected, with instructions for setting the password again.

use std::collections::HashMap;
use std::path::Path;

use crate::error::{FileError, LineError};
use crate::memory_pool::Memory;
use crate::scram::decoys::{DecoySecret, Decoys};
use crate::scram::keys::{Keys, Mechanism};
use crate::stored_hash::StoredHash;

/// The users of a file.
#[derive(Debug)]
pub struct Users {
    hashes: HashMap<Box<str>, StoredHash>,
    /// A hash that matches no password, with the highest cost of all: verified for unknown users.
    decoy: StoredHash,
    /// One for each mechanism for which users have keys.
    decoys: Vec<Decoys>,
}

impl Users {
    /// Reads a password file. May block.
    ///
    /// # Errors
    /// [`FileError`] with the lines of all errors, and the remedy.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path).map_err(FileError::io("read", path))?;
        Self::parse(&text).map_err(|errors| FileError::Invalid { path: path.into(), errors })
    }

    /// Parses the lines. Empty lines and those that begin with `#` are ignored.
    ///
    /// ```
    /// use phalanx_access::Users;
    ///
    /// let text = phalanx_access::passwd::set("# people\n", "eve", b"apple")?;
    /// let users = Users::parse(&text).unwrap();
    /// assert!(users.verify("eve", b"apple"));
    /// assert!(!users.verify("eve", b"pear") && !users.verify("adam", b"apple"));
    /// # Ok::<(), phalanx_access::LineError>(())
    /// ```
    ///
    /// # Errors
    /// All errors, at least one.
    pub fn parse(text: &str) -> Result<Self, Vec<LineError>> {
        let (mut hashes, mut errors, mut keys) = (HashMap::new(), Vec::new(), Vec::new());
        let mut secret = None;
        for (n, line) in text.lines().enumerate() {
            match DecoySecret::read(line) {
                Some(Ok(own)) => secret = Some(own),
                Some(Err(message)) => errors.push(LineError { line: n + 1, column: 1, message }),
                None => (),
            }
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let mut report =
                |column, message| errors.push(LineError { line: n + 1, column, message });
            match user(line.trim_end()) {
                Ok((name, hash)) => {
                    if let StoredHash::Scram(own) = &hash {
                        keys.push(own.clone());
                    }
                    if hashes.insert(name.into(), hash).is_some() {
                        report(1, format!("user {name:?} is listed twice"));
                    }
                }
                Err((column, message)) => report(column, message),
            }
        }
        if hashes.is_empty() && errors.is_empty() {
            errors.push(LineError {
                line: 0,
                column: 0,
                message: "the file contains no users".into(),
            });
        }
        let costliest = hashes.values().max_by_key(|hash: &&StoredHash| hash.cost());
        match costliest.map(StoredHash::decoy) {
            Some(decoy) if errors.is_empty() => {
                let decoys = Mechanism::ALL.into_iter();
                let decoys_of = |mechanism| Decoys::new(mechanism, secret.as_ref(), keys.iter());
                let decoys = decoys.filter_map(decoys_of).collect();
                Ok(Self { hashes, decoy, decoys })
            }
            _ => Err(errors),
        }
    }

    /// The keys of a user, or a decoy, and whether they are keys of the user. `None` if no user has keys for this
    /// mechanism.
    pub(crate) fn scram(&self, mechanism: Mechanism, name: &str) -> Option<(Keys, bool)> {
        let decoys = self.decoys.iter().find(|decoys| decoys.mechanism() == mechanism)?;
        // Always computed, so that the time does not reveal whether the user exists.
        let decoy = decoys.for_user(name);
        Some(match self.hashes.get(name) {
            Some(StoredHash::Scram(own)) if own.mechanism == mechanism => (own.clone(), true),
            _ => (decoy, false),
        })
    }

    /// Whether a user has keys for this mechanism, so that clients may use it.
    #[must_use]
    pub fn offers(&self, mechanism: Mechanism) -> bool {
        self.decoys.iter().any(|decoys| decoys.mechanism() == mechanism)
    }

    /// The number of users whose hash is weaker than those that `phalanx passwd` writes.
    pub fn weak_hashes(&self) -> usize {
        self.hashes.values().filter(|hash| hash.is_weak()).count()
    }

    /// Whether this is the user's password. Deliberately takes tens of milliseconds, and for an unknown user as long as
    /// for the most expensive hash; [`Passwords`](crate::Passwords) runs it on separate threads.
    pub fn verify(&self, name: &str, password: &[u8]) -> bool {
        self.verify_in(name, password, &mut Memory::default())
    }

    /// Like [`verify`](Self::verify), with reused working memory.
    pub(crate) fn verify_in(&self, name: &str, password: &[u8], memory: &mut Memory) -> bool {
        let known = self.hashes.get(name);
        let is_valid = known.unwrap_or(&self.decoy).is_of(password, memory);
        is_valid.unwrap_or(false) && known.is_some()
    }
}

/// The name and hash of a line; or the column and description of an error.
fn user(line: &str) -> Result<(&str, StoredHash), (usize, String)> {
    let Some((name, hash)) = line.split_once(':') else {
        let message = "expected a name, a colon and a hash, as `phalanx passwd` writes them";
        return Err((1, message.into()));
    };
    if let Err(message) = check_name(name) {
        return Err((1, message));
    }
    let column = name.chars().count() + 2;
    let hash = StoredHash::parse(name, hash).map_err(|message| (column, message))?;
    Ok((name, hash))
}

/// Checks that `name` is a valid user name.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let bad = name.contains(':') || name.chars().any(char::is_control);
    if name.is_empty() || name.trim() != name || name.starts_with('#') || bad {
        return Err(format!(
            "found {name:?}, expected a user name without colons and surrounding spaces"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::phc::PasswordHash;

    use super::*;

    /// A cheap hash for a quick test; the password is "apple".
    fn hash(params: &str) -> String {
        use argon2::{Algorithm, Argon2, Params, Version};
        let params: Params = params.parse().unwrap();
        let mut out = [0; 32];
        let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone());
        argon.hash_password_into(b"apple", b"saltsaltsaltsalt", &mut out).unwrap();
        let mut text =
            PasswordHash::new("$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA").unwrap();
        text.params = (&params).try_into().unwrap();
        text.hash = Some(argon2::password_hash::phc::Output::new(&out).unwrap());
        text.to_string()
    }

    #[test]
    fn passwords_by_user() {
        let text = format!(
            "# people\n\n eve:x\neve:{}\r\nadam:{}",
            hash("m=8,t=1,p=1"),
            hash("m=16,t=2,p=1")
        );
        assert_eq!(Users::parse(&text).unwrap_err()[0].line, 3);
        let users = Users::parse(&text.replace(" eve:x", "")).unwrap();
        // (name, password, is right)
        let table = [
            ("eve", "apple", true),
            ("adam", "apple", true),
            ("eve", "rib", false),
            ("eve", "", false),
            ("Eve", "apple", false),
            ("", "apple", false),
            ("snake", "apple", false),
        ];
        for (name, password, expected) in table {
            assert_eq!(users.verify(name, password.as_bytes()), expected, "{name}");
        }
    }

    /// An unknown user takes as long as the most expensive hash.
    #[test]
    fn unknown_users_cost_as_much_as_known_ones() {
        let costly = hash("m=8,t=1,p=1").replace("m=8,t=1", "m=40000,t=3");
        let users = Users::parse(&format!("a:{}\nb:{costly}", hash("m=8,t=1,p=1"))).unwrap();
        assert_eq!((users.decoy.cost(), users.weak_hashes()), (120_000, 0));
    }

    #[test]
    fn rejected_lines_are_reported() {
        let valid = hash("m=8,t=1,p=1");
        // (text, line, column, part of the message)
        let table = [
            ("".to_owned(), 0, 0, "no user"),
            ("eve".to_owned(), 1, 1, "expected a name, a colon"),
            (format!("\n:{valid}"), 2, 1, "expected a user name"),
            (format!("e\u{7}ve:{valid}"), 1, 1, "expected a user name"),
            (format!("eve:{valid}\neve:{valid}"), 2, 1, "twice"),
            ("eve:apple".to_owned(), 1, 5, "phalanx passwd"),
            ("eve:$2y$04$short".to_owned(), 1, 5, "not hashed with Argon2id"),
            ("eve:$7$101$salt$hash".to_owned(), 1, 5, "invalid"),
            ("eve:$argon2id$v=19$m=8".to_owned(), 1, 5, "invalid"),
            (format!("eve:{}", valid.replace("m=8", "m=9999999")), 1, 5, "m=9999999"),
        ];
        for (text, line, column, expected) in table {
            let errors = Users::parse(&text).unwrap_err();
            assert_eq!(errors.len(), 1, "{text}");
            assert_eq!((errors[0].line, errors[0].column), (line, column), "{}", errors[0]);
            assert!(errors[0].message.contains(expected), "{}", errors[0]);
        }
    }
}
