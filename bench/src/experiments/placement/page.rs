//! `/placement.json` of a server.

use std::net::{Ipv4Addr, SocketAddr};

use serde::Deserialize;

use crate::error::Error;
use crate::runner::server::ask;

/// The fields that are used here.
#[derive(Deserialize)]
pub(super) struct Page {
    /// The setting in force.
    pub(super) setting: String,
    totals: Totals,
    profile: Option<Profile>,
    decisions: Vec<Decision>,
}

#[derive(Deserialize)]
struct Totals {
    uptime_ns: u64,
}

#[derive(Deserialize)]
struct Profile {
    mix: Option<String>,
}

/// A decision by the profile.
#[derive(Clone, Deserialize)]
pub(super) struct Decision {
    uptime_ms: u64,
    pub(super) reason: String,
    profile: Option<ByProfile>,
}

#[derive(Clone, Deserialize)]
struct ByProfile {
    to: String,
    mix: Option<String>,
}

/// The admin pages of a server on this machine.
#[derive(Clone, Copy)]
pub(super) struct Pages(pub(super) u16);

impl Pages {
    pub(super) fn placement(self) -> Result<Page, Error> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::server("phalanx web with a profile", format!("/placement.json: {error}"))
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.0));
        let page = ask(address, false, "/placement.json").map_err(|error| failed(&error))?;
        serde_json::from_slice(&page).map_err(|error| failed(&error))
    }
}

impl Page {
    pub(super) fn uptime_ms(&self) -> u64 {
        self.totals.uptime_ns / 1_000_000
    }

    /// The mix that the traffic resembles.
    pub(super) fn mix(&self) -> Option<&str> {
        self.profile.as_ref()?.mix.as_deref()
    }

    /// The decisions since this time.
    pub(super) fn since(&self, uptime_ms: u64) -> impl Iterator<Item = &Decision> {
        self.decisions.iter().filter(move |decision| decision.uptime_ms >= uptime_ms)
    }
}

impl Decision {
    /// Seconds since `begin`, in milliseconds of uptime.
    pub(super) fn seconds_since(&self, begin: u64) -> f64 {
        self.uptime_ms.saturating_sub(begin) as f64 / 1e3
    }

    pub(super) fn mix(&self) -> Option<&str> {
        self.profile.as_ref()?.mix.as_deref()
    }

    /// The setting that it has chosen.
    pub(super) fn setting(&self) -> Option<&str> {
        Some(&self.profile.as_ref()?.to)
    }
}
