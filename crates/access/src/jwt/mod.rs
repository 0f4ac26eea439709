//! JSON Web Tokens (RFC 7519) as passwords: a service that authenticates users signs them, and the broker has the keys
//! of the service.
//!
//! | file | idea |
//! |---|---|
//! | `key_set.rs` | the keys that sign them |
//! | `remote_keys.rs` | the same, fetched from a URL |

mod key_set;
mod remote_keys;

use std::path::Path;
use std::sync::Arc;

use base64ct::{Base64UrlUnpadded, Encoding};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::FileError;
use crate::http::Fetcher;
use key_set::{KeySet, UNKNOWN_KEY};
use remote_keys::Need;
pub use remote_keys::RemoteKeys;

/// Maximum length of a token, in bytes.
const MAX_BYTES: usize = 16 * 1024;
/// The reason for a refusal if the keys were never fetched successfully; the client should try again later.
pub const KEYS_MISSING: &str = "the keys for tokens could not be fetched";
/// How far the clocks of the broker and of the issuer may differ, in seconds.
const TOLERANCE: f64 = 30.0;

/// Claims required of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The claim that contains the user name, such as `sub`.
    pub user: String,
    /// The audience (`aud`), if any is required.
    pub audience: Option<String>,
    /// The issuer (`iss`), if any is required.
    pub issuer: Option<String>,
}

/// Verifies tokens.
#[derive(Debug)]
pub struct Jwt {
    keys: Keys,
    claims: Claims,
}

#[derive(Debug)]
enum Keys {
    OfFile(Arc<KeySet>),
    Remote(RemoteKeys),
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that must be understood (RFC 7515 §4.1.11).
    crit: Option<Value>,
}

impl Jwt {
    /// Reads the keys of the issuers: a file with a JSON Web Key Set. May block.
    ///
    /// # Errors
    /// If the file cannot be read, or is invalid.
    pub fn open(keys: &Path, claims: Claims) -> Result<Self, FileError> {
        Ok(Self { keys: Keys::OfFile(Arc::new(KeySet::open(keys)?)), claims })
    }

    /// Uses the keys of the issuers at a URL, which logins fetch.
    pub fn remote(keys: RemoteKeys, claims: Claims) -> Self {
        Self { keys: Keys::Remote(keys), claims }
    }

    /// The keys fetched from a URL, if they are configured that way.
    pub fn remote_keys(&self) -> Option<&RemoteKeys> {
        match &self.keys {
            Keys::OfFile(_) => None,
            Keys::Remote(keys) => Some(keys),
        }
    }

    /// Fetches the keys at a URL if they are missing or too old.
    pub async fn fetch(&self, fetcher: &Fetcher) {
        if let Keys::Remote(keys) = &self.keys {
            keys.fetch_if(Need::Current, fetcher).await;
        }
    }

    /// Like [`verify`](Self::verify), after [`fetch`](Self::fetch). If the token names an unknown key, the keys are
    /// fetched again, at most every ten seconds.
    ///
    /// # Errors
    /// Like [`verify`](Self::verify).
    pub async fn verify_with(
        &self,
        fetcher: &Fetcher,
        token: &[u8],
        now: u64,
    ) -> Result<String, &'static str> {
        self.fetch(fetcher).await;
        match (self.verify(token, now), &self.keys) {
            (Err(UNKNOWN_KEY), Keys::Remote(keys))
                if keys.fetch_if(Need::Unknown, fetcher).await =>
            {
                self.verify(token, now)
            }
            (verified, _) => verified,
        }
    }

    /// Whether a password has the form of a token.
    #[must_use]
    pub fn is_token(password: &[u8]) -> bool {
        // Three parts, of which the first is base64 of a text that starts with `{"`.
        password.starts_with(b"eyJ") && password.iter().filter(|byte| **byte == b'.').count() == 2
    }

    /// The user that a token names, at `now` in seconds since 1970.
    ///
    /// # Errors
    /// The reason why the token is refused.
    pub fn verify(&self, token: &[u8], now: u64) -> Result<String, &'static str> {
        const FORM: &str = "the token is malformed";
        if token.len() > MAX_BYTES {
            return Err("the token is too long");
        }
        let text = str::from_utf8(token).map_err(|_| FORM)?;
        let (signed, signature) = text.rsplit_once('.').ok_or(FORM)?;
        let (header, claims) = signed.split_once('.').ok_or(FORM)?;
        let bytes = |part: &str| Base64UrlUnpadded::decode_vec(part).map_err(|_| FORM);
        let header: Header = serde_json::from_slice(&bytes(header)?).map_err(|_| FORM)?;
        if header.crit.is_some() {
            return Err("the token has an unknown critical extension");
        }
        let key = (header.kid.as_deref(), header.alg.as_str());
        let keys = match &self.keys {
            Keys::OfFile(keys) => Some(keys.clone()),
            Keys::Remote(keys) => keys.keys(),
        };
        let keys = keys.ok_or(KEYS_MISSING)?;
        keys.verify(key, signed.as_bytes(), &bytes(signature)?)?;
        let claims: Map<String, Value> =
            serde_json::from_slice(&bytes(claims)?).map_err(|_| FORM)?;
        self.check(&claims, now as f64)?;
        match claims.get(&self.claims.user) {
            Some(Value::String(user)) if !user.is_empty() => Ok(user.clone()),
            _ => Err("the token has no claim with the user name"),
        }
    }

    fn check(&self, claims: &Map<String, Value>, now: f64) -> Result<(), &'static str> {
        let time = |name| claims.get(name).map(Value::as_f64);
        match time("exp") {
            Some(Some(expiry)) if now < expiry + TOLERANCE => (),
            Some(Some(_)) => return Err("the token has expired"),
            _ => return Err("the token has no expiry (exp)"),
        }
        match time("nbf") {
            None => (),
            Some(Some(begin)) if begin <= now + TOLERANCE => (),
            Some(_) => return Err("the token is not valid yet"),
        }
        let equals = |value: &Value, expected: &str| value.as_str() == Some(expected);
        if let Some(expected) = &self.claims.audience {
            let found = match claims.get("aud") {
                Some(Value::Array(values)) => values.iter().any(|value| equals(value, expected)),
                Some(value) => equals(value, expected),
                None => false,
            };
            if !found {
                return Err("the token is for another audience");
            }
        }
        match &self.claims.issuer {
            Some(expected) if !claims.get("iss").is_some_and(|issuer| equals(issuer, expected)) => {
                Err("the token has another issuer")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::hmac;
    use ring::rand::SystemRandom;
    use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
    use serde_json::json;

    use super::*;

    const NOW: u64 = 1_000_000;

    fn encode(bytes: impl AsRef<[u8]>) -> String {
        Base64UrlUnpadded::encode_string(bytes.as_ref())
    }

    fn token(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = sign(signed.as_bytes());
        format!("{signed}.{}", encode(signature))
    }

    fn with_secret(secret: &[u8]) -> impl Fn(&[u8]) -> Vec<u8> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        move |message| hmac::sign(&key, message).as_ref().to_vec()
    }

    fn jwt(keys: &Value, claims: Claims) -> Jwt {
        let keys = KeySet::parse(keys.to_string().as_bytes(), true).unwrap();
        Jwt { keys: Keys::OfFile(Arc::new(keys)), claims }
    }

    fn of_user() -> Claims {
        Claims { user: "sub".into(), ..Claims::default() }
    }

    /// The example of RFC 7515, appendix A.1.
    #[test]
    fn the_example_of_the_standard() {
        let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6\
                     Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let k = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
        let keys = json!({ "keys": [{ "kty": "oct", "k": k }] });
        let jwt = jwt(&keys, Claims { user: "iss".into(), ..Claims::default() });
        assert!(Jwt::is_token(token.as_bytes()));
        assert_eq!(jwt.verify(token.as_bytes(), 1_300_819_379).as_deref(), Ok("joe"));
        assert_eq!(jwt.verify(token.as_bytes(), 1_300_819_500), Err("the token has expired"));
        let changed = token.replace("IkX", "IkY").replace("EjXk", "EjXA");
        assert!(jwt.verify(changed.as_bytes(), 1_300_819_379).unwrap_err().contains("signature"));
    }

    #[test]
    fn keys_are_chosen_by_identifier_and_algorithm() {
        let random = SystemRandom::new();
        let kind = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let ec = EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random).unwrap();
        let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let ed = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let secret = [7; 32];
        let point = ec.public_key().as_ref();
        let keys = json!({ "keys": [
            { "kty": "EC", "crv": "P-256", "kid": "1", "x": encode(&point[1..33]), "y": encode(&point[33..]) },
            { "kty": "OKP", "crv": "Ed25519", "kid": "2", "x": encode(ed.public_key()) },
            { "kty": "oct", "kid": "3", "k": encode(secret), "alg": "HS256" },
            { "kty": "oct", "kid": "4", "k": encode([8; 32]) },
            { "kty": "unknown", "kid": "5" },
        ]});
        let jwt = jwt(&keys, of_user());
        let claims = json!({ "sub": "eve", "exp": NOW + 60 });
        let verify = |header: Value, sign: &dyn Fn(&[u8]) -> Vec<u8>| {
            jwt.verify(token(&header, &claims, sign).as_bytes(), NOW)
        };
        let by_ec = |message: &[u8]| ec.sign(&random, message).unwrap().as_ref().to_vec();
        let by_ed = |message: &[u8]| ed.sign(message).as_ref().to_vec();
        let by_secret = with_secret(&secret);
        for (kid, alg, sign) in [
            ("1", "ES256", &by_ec as &dyn Fn(&[u8]) -> Vec<u8>),
            ("2", "EdDSA", &by_ed),
            ("3", "HS256", &by_secret),
        ] {
            assert_eq!(verify(json!({ "alg": alg, "kid": kid }), sign).as_deref(), Ok("eve"));
        }
        assert_eq!(verify(json!({ "alg": "ES256" }), &by_ec).as_deref(), Ok("eve"), "the only one");
        assert!(verify(json!({ "alg": "HS256" }), &by_secret).unwrap_err().contains("several"));
        // A public key is not accepted as a secret, a key has one algorithm, and a token without a signature is
        // refused.
        let misused = with_secret(point);
        for header in [
            json!({ "alg": "HS256", "kid": "1" }),
            json!({ "alg": "none", "kid": "1" }),
            json!({ "alg": "ES256", "kid": "2" }),
            json!({ "alg": "HS512", "kid": "3" }),
            json!({ "alg": "ES256", "kid": "5" }),
        ] {
            assert!(verify(header.clone(), &misused).unwrap_err().contains("no key"), "{header}");
        }
        let invalid = verify(json!({ "alg": "HS256", "kid": "4" }), &by_secret);
        assert_eq!(invalid, Err("the signature of the token is wrong"));
        let critical = json!({ "alg": "ES256", "kid": "1", "crit": ["b64"] });
        assert!(verify(critical, &by_ec).unwrap_err().contains("critical"));
    }

    #[test]
    fn claims_are_checked() {
        let secret = [7; 40];
        let keys = json!({ "keys": [{ "kty": "oct", "k": encode(secret) }] });
        let expected =
            Claims { audience: Some("mqtt".into()), issuer: Some("i".into()), ..of_user() };
        let jwt = jwt(&keys, expected);
        let valid = json!({ "sub": "eve", "exp": NOW + 1, "aud": "mqtt", "iss": "i", "nbf": NOW });
        let verify = |name: &str, value: Value| {
            let mut claims = valid.clone();
            claims[name] = value;
            let token = token(&json!({ "alg": "HS256" }), &claims, with_secret(&secret));
            jwt.verify(token.as_bytes(), NOW)
        };
        for (name, value) in [
            ("sub", json!("eve")),
            ("aud", json!(["a", "mqtt"])),
            ("exp", json!(NOW as f64 + 0.5)),
            ("exp", json!(NOW - 29)),
            ("nbf", json!(NOW + 30)),
        ] {
            assert_eq!(verify(name, value).as_deref(), Ok("eve"));
        }
        for (name, value, reason) in [
            ("sub", json!(5), "user name"),
            ("sub", json!(""), "user name"),
            ("exp", json!(NOW - 30), "expired"),
            ("exp", json!("9999999999"), "no expiry"),
            ("exp", Value::Null, "no expiry"),
            ("nbf", json!(NOW + 31), "not valid yet"),
            ("nbf", json!("x"), "not valid yet"),
            ("aud", json!("other"), "audience"),
            ("aud", json!([]), "audience"),
            ("iss", json!(["i"]), "issuer"),
        ] {
            let error = verify(name, value.clone()).unwrap_err();
            assert!(error.contains(reason), "{name} = {value}: {error}");
        }
        for text in ["", "eyJ", "a.b", "a.b.c", "eyJ.eyJ.", "....", "\u{e9}.b.c"] {
            assert!(jwt.verify(text.as_bytes(), NOW).is_err(), "{text}");
        }
    }

    #[test]
    fn unusable_keys_are_ignored() {
        let x = encode([1; 32]);
        let usable = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "own", "x": x });
        let secret = json!({ "kty": "oct", "kid": "s", "k": encode([7; 32]) });
        for other in [
            json!(1),
            json!({ "kid": "no type" }),
            json!({ "kty": 1 }),
            json!({ "kty": "RSA", "n": "AA" }),
            json!({ "kty": "RSA", "n": encode([255; 1024]), "e": "AQAB", "use": "enc" }),
            json!({ "kty": "OKP", "crv": "Ed25519", "x": "?" }),
        ] {
            for keys in [[usable.clone(), other.clone()], [other, usable.clone()]] {
                let text = json!({ "keys": keys }).to_string();
                assert!(KeySet::parse(text.as_bytes(), false).is_ok(), "{text}");
            }
        }
        // Secrets are accepted only from files.
        let secret_only = json!({ "keys": [secret] }).to_string();
        assert!(KeySet::parse(secret_only.as_bytes(), true).is_ok());
        assert!(KeySet::parse(secret_only.as_bytes(), false).unwrap_err().contains("file only"));
        let both = json!({ "keys": [usable, secret] }).to_string();
        let verified = |secrets| {
            let keys = KeySet::parse(both.as_bytes(), secrets).unwrap();
            let signature = with_secret(&[7; 32])(b"message");
            keys.verify((Some("s"), "HS256"), b"message", &signature).is_ok()
        };
        assert_eq!((verified(true), verified(false)), (true, false));
    }

    #[test]
    fn invalid_key_sets_are_refused() {
        for (text, expected) in [
            ("", "expected a JSON Web Key Set"),
            (r#"{"keys":[]}"#, "no key"),
            (r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#, "key 1: `k` must have"),
            (r#"{"keys":[{"kty":"RSA","n":"AA"}]}"#, "key 1: `e` is missing"),
            (r#"{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}"#, "32 bytes"),
            (r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"#, "expected"),
            (r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA","use":"enc"}]}"#, "no key"),
        ] {
            let error = KeySet::parse(text.as_bytes(), true).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
