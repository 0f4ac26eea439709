//! Settings of an HTTP service that decides about logins and access to topics.

use std::path::{Path, PathBuf};
use std::time::Duration;

use phalanx_access::{CallOutOptions, CallOuts, Endpoint, FileError, Permissions};
use phalanx_config::{ConfigError, choices, settings};

use crate::config::{DAY, MILLISECOND, MINUTE, first_line};

settings! {
    /// An HTTP service that decides about logins, access to topics, or both.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AuthHttp {
        /// The URL that gets the credentials of each login; `None` if another way to log in is configured, or none.
        pub login_url: Option<String>
            => key("login-url",
                "URL that gets username, password, clientid and peerhost of each login by POST; 2xx accepts the \
                 login, 400, 401 and 403 reject it");
        /// The URL that decides about publishing and subscribing, in addition to the access list.
        pub access_url: Option<String>
            => key("access-url",
                "URL that gets username, clientid, peerhost, action (publish or subscribe), acc (2 or 4) and topic \
                 by POST before a client publishes to a topic or subscribes to a filter that acl-file allows");
        /// The form of the request's body.
        pub format: BodyFormat => key("format", "form of the request's body");
        /// PEM file: certificate authorities of the service, by default those of the system.
        pub ca: Option<PathBuf>
            => key("ca", "PEM file with the certificate authorities of the service, by default those of the system");
        /// A file whose first line is the value of `Authorization` in requests.
        pub authorization_file: Option<PathBuf>
            => key("authorization-file", "file whose first line is sent as Authorization, such as Bearer TOKEN");
        /// Time limit of a request, and of the wait before it. Beyond it, logins are refused with *server unavailable*,
        /// and publishing and subscribing with *implementation specific error*.
        pub timeout: Duration = Duration::from_secs(2)
            => range("timeout", MILLISECOND..=MINUTE,
                "time limit of a request, and of the wait for it; then the login, the message or the subscription is \
                 rejected");
        /// Concurrent requests to each URL. Further requests wait, up to 2,000; beyond that they are refused with
        /// *server busy*.
        pub max_requests: usize = 64
            => range("max-requests", 1..=4096, "concurrent requests to each URL; further ones wait");
        /// How long an answer that allows is used again.
        pub allow_lifetime: Duration = Duration::from_secs(60)
            => range("allow-lifetime", Duration::ZERO..=DAY,
                "time for which the answer that accepts a login or access is used for the same credentials or the \
                 same topic");
        /// How long an answer that denies is used again.
        pub deny_lifetime: Duration = Duration::from_secs(5)
            => range("deny-lifetime", Duration::ZERO..=DAY, "the same for an answer that rejects");
        /// Maximum number of kept answers. The broker drops those that end next beyond it.
        pub max_answers: usize = 10_000
            => range("max-answers", 0..=100_000, "answers of each URL that are kept");
    }
}

/// The form of a request's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyFormat {
    /// A JSON object.
    #[default]
    Json,
    /// `application/x-www-form-urlencoded`.
    Form,
}

choices! {
    BodyFormat as BodyFormat: BodyFormat::Json = "json", BodyFormat::Form = "form";
}

impl AuthHttp {
    /// Reads the files. May block.
    pub(crate) fn open(&self) -> Result<(Option<CallOuts>, Option<Permissions>), FileError> {
        let open = |url: &String| Endpoint::open(url, self.ca.as_deref());
        let logins = self.login_url.as_ref().map(open).transpose()?;
        let access = self.access_url.as_ref().map(open).transpose()?;
        let authorization = self.authorization_file.as_deref().map(field_value).transpose();
        let authorization = authorization.map_err(FileError::Unusable)?;
        let options = CallOutOptions {
            is_form: self.format == BodyFormat::Form,
            authorization,
            timeout: self.timeout,
            max_requests: self.max_requests,
            allowed: self.allow_lifetime,
            denied: self.deny_lifetime,
            max_answers: self.max_answers,
        };
        let logins = logins.map(|endpoint| CallOuts::new(endpoint, options.clone()));
        Ok((logins, access.map(|endpoint| Permissions::new(endpoint, options))))
    }

    /// Errors that can be found without opening a file.
    pub(super) fn check(&self) -> Vec<ConfigError> {
        let urls = [("login-url", &self.login_url), ("access-url", &self.access_url)];
        if urls.iter().all(|(_, url)| url.is_none()) {
            let message = "neither `login-url` nor `access-url` is set; set at least one of them";
            return vec![
                ConfigError::for_key("auth-http", message).with_keys(["login-url", "access-url"]),
            ];
        }
        let error = |(key, url): (&str, &Option<String>)| {
            let message = Endpoint::check(url.as_ref()?).err()?;
            Some(ConfigError::for_key(format!("auth-http.{key}"), message))
        };
        urls.into_iter().filter_map(error).collect()
    }
}

/// The first line of a file, as the value of a field.
fn field_value(path: &Path) -> Result<String, String> {
    let line = first_line(path)?;
    let value = line.trim();
    if value.is_empty() || value.bytes().any(|byte| byte.is_ascii_control()) {
        let path = path.display();
        return Err(format!("{path}: the first line is empty, or contains control characters"));
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_value_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authorization");
        for (text, wanted) in [
            ("Bearer a", Some("Bearer a")),
            (" Bearer a \r\nX: b\n", Some("Bearer a")),
            ("Bearer a\rX: b", None),
            ("Bearer \0", None),
            ("", None),
            ("\nBearer a", None),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(field_value(&path).ok().as_deref(), wanted, "{text:?}");
        }
    }
}
