//! Public keys and secrets of the services that issue tokens: a JSON Web Key Set (RFC 7517).

use std::fs;
use std::path::Path;

use base64ct::{Base64UrlUnpadded, Encoding};
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use ring::{hmac, rsa};
use serde::Deserialize;
use serde_json::Value;

use crate::error::{FileError, LineError};

/// Maximum number of keys, size of the file, and lengths of a modulus, in bytes.
const MAX_KEYS: usize = 64;
pub(crate) const MAX_BYTES: usize = 1 << 20;
const MIN_MODULUS: usize = 256;
const MAX_MODULUS: usize = 512;
/// Length of a public key of Ed25519, in bytes (RFC 8032 §5.1.5).
const ED25519_BYTES: usize = 32;
/// Minimum length of a secret, in bytes: that of the shortest signature made with it (RFC 7518 §3.2).
const MIN_SECRET: usize = 32;

/// The reason for a refusal that fetching the keys again could resolve.
pub(crate) const UNKNOWN_KEY: &str = "no key for the token's key identifier and algorithm";

/// A set of keys.
#[derive(Debug)]
pub(crate) struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// The only algorithm of the key, if it names one.
    algorithm: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
    Secret(Vec<u8>),
}

#[derive(Deserialize)]
struct JsonSet {
    keys: Vec<Value>,
}

/// A key as stored in the file.
#[derive(Deserialize)]
struct JsonKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    k: Option<String>,
}

impl KeySet {
    /// Reads a set, which may contain secrets. May block.
    ///
    /// # Errors
    /// If the file cannot be read, or as [`parse`](Self::parse).
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        let text = fs::read(path).map_err(FileError::io("read", path))?;
        Self::parse(&text, true).map_err(|message| {
            let errors = vec![LineError { line: 0, column: 0, message }];
            FileError::Invalid { path: path.into(), errors }
        })
    }

    /// Parses a set. Unusable keys are ignored, as the standard requires (RFC 7517 §5): malformed keys, keys of unknown
    /// types or other uses, and secrets unless they are allowed.
    ///
    /// # Errors
    /// If the text is not a key set, has too many keys, or has no usable one.
    pub(crate) fn parse(text: &[u8], secrets: bool) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("the key set is longer than {MAX_BYTES} bytes"));
        }
        let set: JsonSet = serde_json::from_slice(text)
            .map_err(|error| format!("expected a JSON Web Key Set, {{\"keys\": […]}}: {error}"))?;
        if set.keys.len() > MAX_KEYS {
            return Err(format!("the key set has more than {MAX_KEYS} keys"));
        }
        let (mut keys, mut unusable) = (Vec::new(), String::new());
        for (at, key) in set.keys.into_iter().enumerate() {
            match Key::new(key, secrets) {
                Ok(key) => keys.push(key),
                Err(message) if unusable.is_empty() => {
                    unusable = format!("; key {}: {message}", at + 1)
                }
                Err(_) => (),
            }
        }
        match keys.is_empty() {
            true => Err(format!("the key set has no key that can be used{unusable}")),
            false => Ok(Self(keys)),
        }
    }

    /// Verifies the signature of `message` with a key of this set: the one named `id`, or else the only one for the
    /// algorithm. At most one signature is computed.
    ///
    /// # Errors
    /// The reason why the signature is not accepted.
    pub(crate) fn verify(
        &self,
        (id, algorithm): (Option<&str>, &str),
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), &'static str> {
        let mut candidates = self.0.iter().filter(|key| {
            let is_named = id.is_none() || key.id.as_deref() == id;
            let allowed = key.algorithm.as_deref().is_none_or(|only| only == algorithm);
            is_named && allowed && key.material.has_algorithm(algorithm)
        });
        let Some(key) = candidates.next() else {
            return Err(UNKNOWN_KEY);
        };
        if id.is_none() && candidates.next().is_some() {
            return Err("the token has no key identifier, and several keys fit");
        }
        match key.material.verify(algorithm, message, signature) {
            true => Ok(()),
            false => Err("the signature of the token is wrong"),
        }
    }
}

impl Key {
    fn new(key: Value, secrets: bool) -> Result<Self, String> {
        let key: JsonKey = serde_json::from_value(key).map_err(|_| "expected a JSON Web Key")?;
        if key.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
            return Err("`use` is not `sig`".into());
        }
        let material = key.material()?;
        if matches!(material, Material::Secret(_)) && !secrets {
            return Err("secrets are used from a file only".into());
        }
        Ok(Self { id: key.kid, algorithm: key.alg, material })
    }
}

impl JsonKey {
    fn material(&self) -> Result<Material, String> {
        let bytes = |name: &str, text: &Option<String>| {
            let text = text.as_deref().ok_or_else(|| format!("`{name}` is missing"))?;
            Base64UrlUnpadded::decode_vec(text).map_err(|_| format!("`{name}` is not base64url"))
        };
        let point = |size: usize| {
            let (x, y) = (bytes("x", &self.x)?, bytes("y", &self.y)?);
            match x.len() == size && y.len() == size {
                // An uncompressed point.
                true => Ok([&[4], &x[..], &y].concat()),
                false => Err(format!("`x` and `y` must have {size} bytes")),
            }
        };
        Ok(match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => {
                let (n, e) = (bytes("n", &self.n)?, bytes("e", &self.e)?);
                let is_valid = (MIN_MODULUS..=MAX_MODULUS).contains(&n.len()) && n[0] != 0;
                if !is_valid {
                    let bits = [MIN_MODULUS, MAX_MODULUS].map(|bytes| 8 * bytes);
                    return Err(format!(
                        "`n` must have {} to {} bits, without leading zeros",
                        bits[0], bits[1]
                    ));
                }
                Material::Rsa(rsa::PublicKeyComponents { n, e })
            }
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => match bytes("x", &self.x)? {
                x if x.len() == ED25519_BYTES => Material::Ed25519(x),
                _ => return Err(format!("`x` must have {ED25519_BYTES} bytes")),
            },
            ("oct", _) => match bytes("k", &self.k)? {
                secret if secret.len() >= MIN_SECRET => Material::Secret(secret),
                _ => return Err(format!("`k` must have at least {MIN_SECRET} bytes")),
            },
            _ => return Err("unknown `kty` or `crv`".into()),
        })
    }
}

impl Material {
    fn has_algorithm(&self, name: &str) -> bool {
        match self {
            Material::Rsa(_) => matches!(&name.get(..2), Some("RS" | "PS")),
            Material::P256(_) => name == "ES256",
            Material::P384(_) => name == "ES384",
            Material::Ed25519(_) => matches!(name, "EdDSA" | "Ed25519"),
            Material::Secret(_) => name.starts_with("HS"),
        }
    }

    fn verify(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        let public =
            |kind, key: &[u8]| UnparsedPublicKey::new(kind, key).verify(message, signature);
        let verified = match self {
            Material::Rsa(key) => {
                let kind = match algorithm {
                    "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
                    "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
                    "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
                    "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
                    "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
                    "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => return false,
                };
                key.verify(kind, message, signature)
            }
            Material::P256(key) => public(&signature::ECDSA_P256_SHA256_FIXED, key),
            Material::P384(key) => public(&signature::ECDSA_P384_SHA384_FIXED, key),
            Material::Ed25519(key) => public(&signature::ED25519, key),
            Material::Secret(secret) => {
                let kind = match algorithm {
                    "HS256" => hmac::HMAC_SHA256,
                    "HS384" => hmac::HMAC_SHA384,
                    "HS512" => hmac::HMAC_SHA512,
                    _ => return false,
                };
                hmac::verify(&hmac::Key::new(kind, secret), message, signature)
            }
        };
        verified.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_with_which_no_signature_can_be_verified_are_left_out() {
        let encoded = |bytes: &[u8]| Base64UrlUnpadded::encode_string(bytes);
        let parse =
            |key: Value| KeySet::parse(json!({ "keys": [key] }).to_string().as_bytes(), true);
        let rsa = |n: &[u8]| parse(json!({ "kty": "RSA", "n": encoded(n), "e": "AQAB" }));
        let ed = |x: &[u8]| parse(json!({ "kty": "OKP", "crv": "Ed25519", "x": encoded(x) }));
        assert!(rsa(&[1; 256]).is_ok() && rsa(&[1; 512]).is_ok() && ed(&[1; 32]).is_ok());
        let padded = [&[0][..], &[1; 256]].concat();
        for invalid in [rsa(&[1; 255]), rsa(&[1; 513]), rsa(&padded), rsa(&[])] {
            assert!(invalid.unwrap_err().contains("`n` must have 2048 to 4096 bits"));
        }
        for invalid in [ed(&[1]), ed(&[1; 33])] {
            assert!(invalid.unwrap_err().contains("`x` must have 32 bytes"));
        }
    }
}
