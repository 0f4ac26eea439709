//! Messages of the client (RFC 5802, section 7).

use base64ct::{Base64, Encoding};

/// Maximum length of a message, in bytes.
const MAX_BYTES: usize = 4096;

/// The client's first message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct First<'a> {
    /// The flag of channel bindings and the identity to act as.
    pub(super) header: &'a str,
    /// The message without the header.
    pub(super) bare: &'a str,
    pub(super) user: String,
    pub(super) nonce: &'a str,
}

impl<'a> First<'a> {
    /// # Errors
    /// The reason why the message is refused.
    pub(super) fn parse(message: &'a [u8]) -> Result<Self, &'static str> {
        const FORM: &str = "the first message of SCRAM is malformed";
        let text = text(message).ok_or(FORM)?;
        let mut parts = text.splitn(3, ',');
        let (binding, acts_as) = (parts.next().ok_or(FORM)?, parts.next().ok_or(FORM)?);
        let bare = parts.next().ok_or(FORM)?;
        match binding {
            // The client supports no channel binding, or believes that the server does not.
            "n" | "y" => (),
            _ if binding.starts_with("p=") => {
                return Err("channel bindings are not supported");
            }
            _ => return Err(FORM),
        }
        let mut fields = bare.split(',');
        let user = match fields.next().and_then(|field| field.split_once('=')) {
            Some(("n", name)) => unescaped(name).ok_or(FORM)?,
            Some(("m", _)) => return Err("SCRAM has an unknown mandatory extension"),
            _ => return Err(FORM),
        };
        let nonce = fields.next().and_then(|field| field.strip_prefix("r=")).ok_or(FORM)?;
        let is_nonce = !nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_graphic());
        if user.is_empty() || !is_nonce {
            return Err(FORM);
        }
        match acts_as.strip_prefix("a=").map(unescaped) {
            None if acts_as.is_empty() => (),
            Some(Some(other)) if other == user => (),
            None | Some(None) => return Err(FORM),
            Some(Some(_)) => return Err("acting as another user is not supported"),
        }
        let header = &text[..text.len() - bare.len()];
        Ok(Self { header, bare, user, nonce })
    }
}

/// The client's last message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Last<'a> {
    /// The message without the proof.
    pub(super) bare: &'a str,
    /// The header of the first message.
    pub(super) header: Vec<u8>,
    pub(super) nonce: &'a str,
    pub(super) proof: Vec<u8>,
}

impl<'a> Last<'a> {
    /// `None` for a malformed message.
    pub(super) fn parse(message: &'a [u8]) -> Option<Self> {
        let (bare, proof) = text(message)?.rsplit_once(",p=")?;
        let mut fields = bare.split(',');
        let header = fields.next()?.strip_prefix("c=")?;
        let nonce = fields.next()?.strip_prefix("r=")?;
        let (header, proof) = (Base64::decode_vec(header).ok()?, Base64::decode_vec(proof).ok()?);
        Some(Self { bare, header, nonce, proof })
    }
}

fn text(message: &[u8]) -> Option<&str> {
    let text = str::from_utf8(message).ok().filter(|text| text.len() <= MAX_BYTES)?;
    (!text.contains('\0')).then_some(text)
}

/// A user name, in which `=2C` is a comma and `=3D` an equals sign.
fn unescaped(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let (sign, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return None,
        };
        out.push(sign);
        out.push_str(rest);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_messages() {
        let first = First::parse(b"y,a=e=2Cv=3De,n=e=2Cv=3De,r=ab!,x=1").unwrap();
        assert_eq!((&*first.user, first.nonce), ("e,v=e", "ab!"));
        assert_eq!((first.header, first.bare), ("y,a=e=2Cv=3De,", "n=e=2Cv=3De,r=ab!,x=1"));
        let long = format!("n,,n={},r=a", "e".repeat(MAX_BYTES));
        for (message, reason) in [
            ("", "malformed"),
            ("n,,", "malformed"),
            ("n,n=eve,r=a", "malformed"),
            ("q,,n=eve,r=a", "malformed"),
            ("n,,n=,r=a", "malformed"),
            ("n,,n=eve,r=", "malformed"),
            ("n,,n=eve,r=\u{e4}", "malformed"),
            ("n,,n=e=2Dve,r=a", "malformed"),
            ("n,,r=a,n=eve", "malformed"),
            ("n,b=eve,n=eve,r=a", "malformed"),
            ("n,,n=e\0ve,r=a", "malformed"),
            (&long, "malformed"),
            ("p=tls-exporter,,n=eve,r=a", "channel binding"),
            ("n,,m=1,n=eve,r=a", "mandatory"),
            ("n,a=adam,n=eve,r=a", "another user"),
        ] {
            let error = First::parse(message.as_bytes()).unwrap_err();
            assert!(error.contains(reason), "{message}: {error}");
        }
    }

    #[test]
    fn last_messages() {
        let last = Last::parse(b"c=biws,r=ab,x=1,p=AAEC").unwrap();
        assert_eq!((last.bare, &*last.header, last.nonce), ("c=biws,r=ab,x=1", &b"n,,"[..], "ab"));
        assert_eq!(last.proof, [0, 1, 2]);
        for message in ["", "c=biws,r=ab", "r=ab,c=biws,p=AAEC", "c=biws,r=ab,p=*", "c=*,r=a,p=AA"]
        {
            assert_eq!(Last::parse(message.as_bytes()), None, "{message}");
        }
    }
}
