//! What is asked of the servers: kinds of files, and of traffic.

use std::io;
use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

use super::demands::Demands;
use super::site::Site;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// A kind of site and of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Scene {
    /// 1,000 files of 1 to 4 KiB, some of them popular
    Small,
    /// The same with up to 10,000 connections: what a connection more costs
    Many,
    /// The same, 16 requests under way on each connection
    Pipelined,
    /// 1,000 files of 1 to 4 KiB over TLS, hands shaken once for each connection
    Tls,
    /// The same over TLS by HTTP/2, 8 streams at a time on each connection
    Http2,
    /// As `small`, and every server writes an access log to a file
    Logged,
    /// 64 files of 100 KiB
    Medium,
    /// 8 files of 10 MiB
    Large,
    /// 16,384 files of 64 KiB that neither the server nor the kernel has read before
    Cold,
}

impl Scene {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Small,
        Self::Many,
        Self::Pipelined,
        Self::Tls,
        Self::Http2,
        Self::Logged,
        Self::Medium,
        Self::Large,
        Self::Cold,
    ];

    /// Connections at a time, one round of slices for each.
    pub(crate) fn connections(self) -> &'static [usize] {
        match self {
            Self::Small => &[16, 64, 256, 1000],
            Self::Many => &[64, 1000, 4000, 10_000],
            Self::Tls | Self::Logged => &[16, 64, 256],
            Self::Http2 => &[4, 16, 64],
            Self::Pipelined | Self::Medium => &[16],
            Self::Large => &[4],
            Self::Cold => &[64],
        }
    }

    /// Requests under way on each connection.
    pub(crate) fn pipeline(self) -> usize {
        match self {
            Self::Pipelined => 16,
            Self::Http2 => 8,
            _ => 1,
        }
    }

    /// Whether the kernel forgets the files before each slice.
    pub(crate) fn cold(self) -> bool {
        self == Self::Cold
    }

    /// What servers do beside: the floor and the twin nothing.
    pub(crate) fn demands(self) -> Demands {
        Demands {
            tls: matches!(self, Self::Tls | Self::Http2),
            http2: self == Self::Http2,
            log: self == Self::Logged,
        }
    }

    /// Whether the floor's one answer is like those that are asked for.
    pub(crate) fn floor(self) -> bool {
        matches!(self, Self::Small | Self::Many | Self::Pipelined)
    }

    /// More arguments for `phalanx web`. Nobody is to refuse anything: that is `bench overload`'s.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Cold => &["--max-queue-delay", "0", "--cache", "1M"],
            _ => &["--max-queue-delay", "0"],
        }
    }

    /// Makes the site in `directory`; with `quick` no larger than a short look takes.
    pub(crate) fn site(self, directory: &Path, quick: bool) -> io::Result<Site> {
        match self {
            Self::Small | Self::Many | Self::Pipelined | Self::Tls | Self::Http2 | Self::Logged => {
                Site::make(directory)
            }
            Self::Medium => Site::of(directory, &[100 * KIB; 64], 0.0),
            Self::Large => Site::of(directory, &[10 * MIB; 8], 0.0),
            Self::Cold => {
                Site::of(directory, &vec![64 * KIB; if quick { 256 } else { 16_384 }], 0.0)
            }
        }
    }
}

/// As in the command line.
impl std::fmt::Display for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.to_possible_value().expect("no scene is hidden");
        f.write_str(value.get_name())
    }
}
