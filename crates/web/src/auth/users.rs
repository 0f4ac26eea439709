//! Users and their passwords' hashes, as `htpasswd` writes them: a line `name:hash` for each.
//!
//! Only bcrypt is taken (`htpasswd -B`). What else there is, a graphics card guesses at by the billion a
//! second: apr1 and crypt are MD5 and DES, and {SHA} has no salt. A file that has come into other hands
//! would then give the passwords away, which people use elsewhere too; so it is better refused, with a
//! word on how to make it anew, than accepted with a warning that nobody reads.

use std::collections::HashMap;

use bcrypt::HashParts;

/// Costs that are taken: below, bcrypt has none; above, one look takes more than a second.
const COSTS: std::ops::RangeInclusive<u32> = 4..=14;

/// A file's users.
#[derive(PartialEq, Eq)]
pub(crate) struct Users {
    hashes: HashMap<Box<[u8]>, Box<str>>,
    /// A hash that no password has, as costly as the costliest: looked at for those who are unknown.
    nobody: Box<str>,
}

/// What is wrong with a line: its number, from one, and what.
pub(crate) type Wrong = (usize, String);

impl Users {
    /// Reads the lines. Empty ones and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// All that is wrong with them, at least one; a line 0 is about the whole.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, Vec<Wrong>> {
        let (mut hashes, mut wrong) = (HashMap::new(), Vec::new());
        let mut cost = *COSTS.start();
        for (n, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            match user(line) {
                Ok((name, hash, own)) => {
                    cost = cost.max(own);
                    if hashes.insert(name.into(), hash.into()).is_some() {
                        wrong.push((n + 1, format!("{} is there already", shown(name))));
                    }
                }
                Err(what) => wrong.push((n + 1, what)),
            }
        }
        if hashes.is_empty() && wrong.is_empty() {
            wrong.push((0, "there is no user in it: make one with `htpasswd -B`".into()));
        }
        let nobody = format!("$2b${cost:02}${}", ".".repeat(53)).into();
        if wrong.is_empty() { Ok(Self { hashes, nobody }) } else { Err(wrong) }
    }

    /// Whether this is the user's password. Takes tens of milliseconds, and for somebody who is not
    /// known as long as for the user who takes longest.
    pub(crate) fn verify(&self, name: &[u8], password: &[u8]) -> bool {
        let known = self.hashes.get(name);
        let right = bcrypt::verify(password, known.unwrap_or(&self.nobody)).unwrap_or(false);
        right && known.is_some()
    }
}

/// A line's name and hash, and the hash's cost.
fn user(line: &[u8]) -> Result<(&[u8], &str, u32), String> {
    let mut parts = line.split(|byte| *byte == b':');
    let name = parts.next().unwrap_or_default();
    let Some(hash) = parts.next() else {
        return Err("expected a name, a colon and a hash, as `htpasswd -B` writes them".into());
    };
    if name.is_empty() || name.iter().any(u8::is_ascii_control) {
        return Err(format!("found {}, expected the name of a user", shown(name)));
    }
    let weak = |kind: &str| {
        format!(
            "the password of {} is {kind}, which is soon guessed; expected bcrypt: set it anew with \
             `htpasswd -B`",
            shown(name)
        )
    };
    let hash = str::from_utf8(hash).unwrap_or_default();
    match hash {
        _ if ["$2y$", "$2b$", "$2a$"].iter().any(|prefix| hash.starts_with(prefix)) => (),
        _ if hash.starts_with("$apr1$") || hash.starts_with("$1$") => {
            return Err(weak("hashed with MD5"));
        }
        _ if hash.starts_with("{SHA}") => return Err(weak("hashed with SHA-1, without salt")),
        _ if hash.starts_with('$') => return Err(weak("hashed in a way that is not taken")),
        _ => return Err(weak("hashed with DES, or not at all")),
    }
    let Ok(parts) = hash.parse::<HashParts>() else {
        return Err(format!("the hash of {} is broken", shown(name)));
    };
    let cost = parts.get_cost();
    if !COSTS.contains(&cost) {
        let (least, most) = (COSTS.start(), COSTS.end());
        let name = shown(name);
        return Err(format!("the hash of {name} has cost {cost}, expected {least} to {most}"));
    }
    Ok((name, hash, cost))
}

fn shown(name: &[u8]) -> String {
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
    fn who_has_which_password() {
        let text = format!("# people\n\n eve:{}:comment\r\nadam:{}", hash("apple"), hash("rib"));
        let users = Users::parse(text.as_bytes()).ok().unwrap();
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
        for (name, password, right) in table {
            assert_eq!(users.verify(name.as_bytes(), password.as_bytes()), right, "{name}");
        }
    }

    /// Somebody who is not known costs as much as who costs most.
    #[test]
    fn nobody_costs_what_somebody_costs() {
        let dear = hash("x").replacen("$04$", "$09$", 1);
        let users = Users::parse(format!("a:{}\nb:{dear}", hash("y")).as_bytes()).ok().unwrap();
        assert_eq!(users.nobody.parse::<HashParts>().unwrap().get_cost(), 9);
    }

    #[test]
    fn what_is_not_taken_is_told() {
        let good = hash("x");
        // (text, line, what is said)
        let table = [
            ("".to_owned(), 0, "no user"),
            ("eve".to_owned(), 1, "expected a name, a colon"),
            ("\n:x".to_owned(), 2, "expected the name"),
            (format!("e\x07ve:{good}"), 1, "\\x07"),
            (format!("eve:{good}\neve:{good}"), 2, "already"),
            ("eve:$apr1$l3jMlOmB$kJZkRpCOYyEO5CtV.Ilcs1".to_owned(), 1, "MD5"),
            ("eve:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=".to_owned(), 1, "SHA-1"),
            ("eve:$6$rounds=5000$x$y".to_owned(), 1, "not taken"),
            ("eve:rqXexS6ZhobKA".to_owned(), 1, "DES"),
            ("eve:apple".to_owned(), 1, "htpasswd -B"),
            ("eve:$2y$04$short".to_owned(), 1, "broken"),
            (format!("eve:{}", good.replacen("$04$", "$17$", 1)), 1, "cost 17"),
        ];
        for (text, line, wanted) in table {
            let wrong = Users::parse(text.as_bytes()).err().unwrap();
            assert_eq!(wrong.len(), 1, "{text}");
            assert!(wrong[0].0 == line && wrong[0].1.contains(wanted), "{wrong:?}");
        }
    }
}
