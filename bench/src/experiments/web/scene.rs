//! Scenes: combinations of files and traffic.

use std::io;
use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

use crate::arguments::name;
use crate::runner::{Features, Site, pages};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// A kind of site and traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scene {
    /// 1,000 files of 1 to 4 KiB, some of them popular
    Small,
    /// The same with up to 10,000 connections: the cost of more connections
    Many,
    /// The same with 16 concurrent requests per connection
    Pipelined,
    /// 1,000 files of 1 to 4 KiB over TLS, with a handshake per connection
    Tls,
    /// The same over HTTP/2 with TLS, 8 concurrent streams per connection
    Http2,
    /// The same over HTTP/3, 8 concurrent streams per connection
    Http3,
    /// 64 files of 100 KiB over HTTP/3
    #[serde(rename = "http3-medium")]
    Http3Medium,
    /// As `small`, with access logs written to files
    Logged,
    /// As `small`, from a `phalanx web` on the load's cores to which all servers forward the requests
    Proxy,
    /// 64 files of 100 KiB
    Medium,
    /// 8 files of 10 MiB
    Large,
    /// Visits of pages as in the HTTP Archive: 70 files and 1.9 MB each, over TLS and HTTP/2, text compressed in
    /// advance. A third of the visitors is new, the others make conditional requests. A visit counts as one request
    Site,
    /// 16,384 files of 64 KiB that are in neither the server's nor the kernel's cache
    Cold,
}

impl Scene {
    /// Numbers of connections, with one round of slices each.
    pub(crate) fn connections(self) -> &'static [usize] {
        match self {
            Self::Small => &[16, 64, 256, 1000],
            Self::Many => &[64, 1000, 4000, 10_000],
            Self::Tls | Self::Logged | Self::Proxy => &[16, 64, 256],
            Self::Http2 | Self::Http3 => &[4, 16, 64],
            Self::Pipelined | Self::Medium | Self::Http3Medium => &[16],
            Self::Large => &[4],
            Self::Site => &[16],
            Self::Cold => &[64],
        }
    }

    /// Concurrent requests per connection.
    pub(crate) fn pipeline(self) -> usize {
        match self {
            Self::Pipelined => 16,
            Self::Http2 | Self::Http3 => 8,
            _ => 1,
        }
    }

    /// Whether the files are evicted from the page cache before each slice.
    pub(crate) fn cold(self) -> bool {
        self == Self::Cold
    }

    /// Required features; the floor and the twin have none.
    pub(crate) fn features(self) -> Features {
        Features {
            tls: matches!(
                self,
                Self::Tls | Self::Http2 | Self::Http3 | Self::Http3Medium | Self::Site
            ),
            http2: matches!(self, Self::Http2 | Self::Site),
            http3: matches!(self, Self::Http3 | Self::Http3Medium),
            log: self == Self::Logged,
            gzip: self == Self::Site,
            proxy: self == Self::Proxy,
        }
    }

    /// Whether the floor's single answer is comparable to the requested files.
    pub(crate) fn floor(self) -> bool {
        matches!(self, Self::Small | Self::Many | Self::Pipelined)
    }

    /// Additional arguments of `phalanx web`. Overload control is off, since `phalanx-bench overload` measures
    /// it.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Cold => &["--max-queue-delay", "0", "--cache", "1M"],
            _ => &["--max-queue-delay", "0"],
        }
    }

    /// Creates the site in `directory`; with `quick` a small one.
    pub(crate) fn site(self, directory: &Path, quick: bool) -> io::Result<Site> {
        match self {
            Self::Small
            | Self::Many
            | Self::Pipelined
            | Self::Tls
            | Self::Http2
            | Self::Http3
            | Self::Logged
            | Self::Proxy => Site::make(directory),
            Self::Medium | Self::Http3Medium => Site::with_sizes(directory, &[100 * KIB; 64], 0.0),
            Self::Large => Site::with_sizes(directory, &[10 * MIB; 8], 0.0),
            Self::Site => pages::make(directory, if quick { 2 } else { 20 }),
            Self::Cold => {
                Site::with_sizes(directory, &vec![64 * KIB; if quick { 256 } else { 16_384 }], 0.0)
            }
        }
    }
}

/// The scene's name on the command line.
impl std::fmt::Display for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&name(self))
    }
}
