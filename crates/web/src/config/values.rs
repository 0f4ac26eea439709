//! Value types used only by the web server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use phalanx_config::{Given, Value, Written, choices, did_you_mean, integer};

use crate::config::{
    AcmeChallenge, CachePreset, ForwardedField, LogFormat, LogTarget, Network, RedirectStatus,
    SendMode, Symlinks, UnknownHost,
};

/// Error pages by status, such as `404=404.html`.
pub(super) struct ErrorPages;

/// Statuses that may have error pages. All others are sent by upstream servers, or before the host is known.
const PAGE_STATUSES: [u16; 16] =
    [400, 401, 403, 404, 405, 406, 408, 412, 413, 416, 429, 500, 501, 502, 503, 504];

impl Value<Vec<(u16, String)>> for ErrorPages {
    const LIST: bool = true;

    fn kind() -> String {
        "status=file".into()
    }

    fn expected() -> String {
        "a list of statuses and files such as [\"404=404.html\"]".into()
    }

    fn read(value: &Given<'_>) -> Result<Vec<(u16, String)>, String> {
        let page = |text: String| {
            let (status, file) = text.split_once('=').ok_or_else(|| format!("{text:?}"))?;
            match status.parse() {
                Ok(code) if PAGE_STATUSES.contains(&code) => match file {
                    "" => Err("no file after the equals sign".into()),
                    file => Ok((code, file.to_owned())),
                },
                Ok(400..=599) => Err(format!(
                    "responses with the status {status:?} have no error page; expected one of {}",
                    PAGE_STATUSES.map(|status| status.to_string()).join(", ")
                )),
                _ => Err(format!("{status:?} is not an error status from 400 to 599")),
            }
        };
        Vec::<String>::read(value)?.into_iter().map(page).collect()
    }

    fn print(pages: &Vec<(u16, String)>) -> Written {
        let page = |(status, file): &(u16, String)| format!("{status}={file}").into();
        Written::Array(pages.iter().map(page).collect())
    }
}

/// Networks, such as `10.0.0.0/8`.
pub(super) struct Networks;

impl Value<Vec<Network>> for Networks {
    const LIST: bool = true;

    fn kind() -> String {
        "network".into()
    }

    fn expected() -> String {
        "a list of addresses and networks such as [\"10.0.0.0/8\", \"::1\"]".into()
    }

    fn read(value: &Given<'_>) -> Result<Vec<Network>, String> {
        Vec::<String>::read(value)?.iter().map(|text| text.parse()).collect()
    }

    fn print(networks: &Vec<Network>) -> Written {
        Written::Array(networks.iter().map(|network| network.to_string().into()).collect())
    }
}

/// A queueing delay, where 0 disables the limit.
pub(super) struct MaxQueueDelay;

impl Value<Option<Duration>> for MaxQueueDelay {
    fn kind() -> String {
        Duration::kind()
    }

    fn expected() -> String {
        Duration::expected()
    }

    fn read(value: &Given<'_>) -> Result<Option<Duration>, String> {
        Duration::read(value).map(|delay| Some(delay).filter(|delay| !delay.is_zero()))
    }

    fn print(delay: &Option<Duration>) -> Written {
        Duration::print(&delay.unwrap_or_default())
    }
}

/// Fields in which proxies name their clients.
pub(super) struct ForwardedFields;

/// ACME challenges.
pub(super) struct AcmeChallenges;

choices! {
    AcmeChallenges as AcmeChallenge: AcmeChallenge::Auto = "auto", AcmeChallenge::Http01 = "http-01",
        AcmeChallenge::TlsAlpn01 = "tls-alpn-01";
    Symlinks as Symlinks: Symlinks::Deny = "deny", Symlinks::OwnerMatches = "owner-matches",
        Symlinks::Follow = "follow";
    SendMode as SendMode: SendMode::ZeroCopy = "zero-copy", SendMode::Copy = "copy";
    UnknownHost as UnknownHost: UnknownHost::First = "first", UnknownHost::NotFound = "404",
        UnknownHost::Misdirected = "421";
    CachePreset as CachePreset: CachePreset::Immutable = "immutable",
        CachePreset::Revalidate = "revalidate", CachePreset::Day = "day",
        CachePreset::Never = "never";
    ForwardedFields as ForwardedField: ForwardedField::XForwardedFor = "x-forwarded-for",
        ForwardedField::Forwarded = "forwarded";
}

impl Value for RedirectStatus {
    fn kind() -> String {
        "301|302|307|308".into()
    }

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

/// Formats of access logs.
pub(super) struct LogFormats;

impl Value<LogFormat> for LogFormats {
    fn kind() -> String {
        "common|combined|json|template".into()
    }

    fn expected() -> String {
        "\"common\" or \"combined\" or \"json\", or a text with fields such as \"$address $status\""
            .into()
    }

    fn read(value: &Given<'_>) -> Result<LogFormat, String> {
        match value.as_str() {
            Some("common") => Ok(LogFormat::Common),
            Some("combined") => Ok(LogFormat::Combined),
            Some("json") => Ok(LogFormat::Json),
            Some(template) if template.contains('$') => template.parse().map(LogFormat::Template),
            other => Err(did_you_mean(other, ["common", "combined", "json"])),
        }
    }

    fn print(value: &LogFormat) -> Written {
        match value {
            LogFormat::Common => "common".into(),
            LogFormat::Combined => "combined".into(),
            LogFormat::Json => "json".into(),
            LogFormat::Template(template) => template.to_string().into(),
        }
    }
}

impl Value for LogTarget {
    fn kind() -> String {
        "stdout|path".into()
    }

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

    fn resolve(value: &mut Self, base: &Path) {
        if let Self::File(path) = value {
            PathBuf::resolve(path, base);
        }
    }
}
