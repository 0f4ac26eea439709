//! Value types that only the web server has.

use std::path::Path;

use phalanx_config::{Given, PathValue, Value, Written, choices, integer};
use phalanx_service::EXPECTED_ADDRESS;

use crate::config::{Listen, LogFormat, LogTarget, RedirectStatus, Symlinks, UnknownHost};

/// Error pages by status.
pub(super) struct ErrorPages;

impl Value<Vec<(u16, String)>> for ErrorPages {
    fn expected() -> String {
        "a table such as { 404 = \"404.html\" }".into()
    }

    fn read(value: &Given<'_>) -> Result<Vec<(u16, String)>, String> {
        let table = value.as_table().ok_or_else(String::new)?;
        let pages = table.iter().map(|(status, page)| {
            let status = status.get_ref();
            match status.parse() {
                Ok(code @ 400..=599) => Ok((code, String::read(page.get_ref())?)),
                _ => Err(format!("{status} is not an error status")),
            }
        });
        let mut pages = pages.collect::<Result<Vec<_>, _>>()?;
        pages.sort();
        Ok(pages)
    }

    fn print(pages: &Vec<(u16, String)>) -> Written {
        let page = |(status, page): &(u16, String)| (status.to_string(), page.clone().into());
        Written::Table(pages.iter().map(page).collect())
    }
}

/// An address with an optional prefix: `tls:` for TLS, `redirect-https:` for redirecting to TLS.
impl Value for Listen {
    fn expected() -> String {
        format!("{EXPECTED_ADDRESS}, with an optional prefix tls: or redirect-https:")
    }

    fn read(value: &Given<'_>) -> Result<Self, String> {
        value.as_str().and_then(|text| text.parse().ok()).ok_or_else(String::new)
    }

    fn print(value: &Self) -> Written {
        value.to_string().into()
    }
}

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tls, redirect_https) =
            (text.strip_prefix("tls:"), text.strip_prefix("redirect-https:"));
        match phalanx_service::address(tls.or(redirect_https).unwrap_or(text)) {
            Ok(address) => {
                Ok(Self { address, tls: tls.is_some(), redirect_https: redirect_https.is_some() })
            }
            Err(_) => Err(format!("{text:?}: expected {}", Self::expected())),
        }
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let before = match (self.tls, self.redirect_https) {
            (true, _) => "tls:",
            (false, true) => "redirect-https:",
            (false, false) => "",
        };
        write!(f, "{before}{}", self.address)
    }
}

/// Formats of the access log.
pub(super) struct LogFormats;

choices! {
    Symlinks as Symlinks: Symlinks::Deny = "deny", Symlinks::OwnerMatches = "owner-matches",
        Symlinks::Follow = "follow";
    UnknownHost as UnknownHost: UnknownHost::First = "first", UnknownHost::NotFound = "404",
        UnknownHost::Misdirected = "421";
    LogFormats as LogFormat: LogFormat::Common = "common", LogFormat::Combined = "combined",
        LogFormat::Json = "json";
}

impl Value for RedirectStatus {
    fn expected() -> String {
        "301, 302, 307 or 308".into()
    }

    fn read(value: &Given<'_>) -> Result<Self, String> {
        match integer(value)? {
            301 => Ok(Self::MovedPermanently),
            302 => Ok(Self::Found),
            307 => Ok(Self::Temporary),
            308 => Ok(Self::Permanent),
            _ => Err(String::new()),
        }
    }

    fn print(value: &Self) -> Written {
        Written::Integer(match value {
            Self::MovedPermanently => 301,
            Self::Found => 302,
            Self::Temporary => 307,
            Self::Permanent => 308,
        })
    }
}

impl Value for LogTarget {
    fn expected() -> String {
        "\"stdout\", or a path that contains a slash".into()
    }

    fn read(value: &Given<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some("stdout") => Ok(Self::Stdout),
            Some(path) if path.contains('/') => Ok(Self::File(path.into())),
            _ => Err(String::new()),
        }
    }

    fn print(value: &Self) -> Written {
        match value {
            Self::Stdout => "stdout".into(),
            Self::File(path) => path.to_string_lossy().into_owned().into(),
        }
    }
}

impl PathValue for LogTarget {
    fn resolve(&mut self, base: &Path) {
        if let Self::File(path) = self {
            path.resolve(base);
        }
    }
}
