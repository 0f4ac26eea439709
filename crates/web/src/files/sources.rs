//! Which other codings of a file there are: what lies beside it, and what can be made of it.

use std::sync::Arc;

use phalanx::fs::{FileKind, Metadata};
use phalanx_http::Coding;

use crate::files::disk::{self, Opened};
use crate::files::encode;
use crate::files::variants::{Source, Sources};
use crate::site::Host;
use crate::stages::Stages;

/// The sources for the file at `path`, in the state that `metadata` tells of.
///
/// A neighbour counts only if it is not older than the file: one that is was made of another state.
pub(crate) async fn find(
    stages: Stages,
    host: &Arc<Host>,
    path: &[u8],
    metadata: Metadata,
) -> Sources {
    let mut sources = Sources::default();
    let config = &host.config;
    if !config.precompressed && !config.compress || is_encoded(path) {
        return sources;
    }
    let sizes = encode::SMALLEST..=encode::LARGEST;
    let makes = config.compress
        && sizes.contains(&metadata.length)
        && host.rules.kinds.of(path).is_compressible();
    for (source, coding) in sources.iter_mut().zip(Coding::ENCODED) {
        if config.precompressed
            && let Ok(Opened { metadata: beside, .. }) =
                disk::open(stages, host, &neighbour(path, coding)).await
            && beside.kind == FileKind::File
            && beside.modified_ns >= metadata.modified_ns
        {
            *source = Source::Neighbour(beside.into());
        } else if makes {
            *source = Source::Made;
        }
    }
    sources
}

/// The name of a file's neighbour in this coding.
pub(crate) fn neighbour(path: &[u8], coding: Coding) -> Vec<u8> {
    [path, coding.suffix().as_bytes()].concat()
}

/// Whether it is a neighbour itself.
fn is_encoded(path: &[u8]) -> bool {
    Coding::ENCODED.iter().any(|coding| path.ends_with(coding.suffix().as_bytes()))
}
