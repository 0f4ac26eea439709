//! Sources of a file's other encodings: precompressed files next to it, and compression.

use std::sync::Arc;

use phalanx::fs::{FileKind, Metadata};
use phalanx_http::Coding;

use crate::files::disk::{self, Opened};
use crate::files::encodings::encode;
use crate::files::encodings::variants::{Source, Sources};
use crate::files::failure::Failure;
use crate::files::stages::FileStages;
use crate::site::Host;

/// Finds the sources for the file at `path` with this `metadata`.
///
/// A precompressed file that is older than the file is ignored: it was made from another version. `known` is the result
/// of the last check. It is kept for a file that cannot be opened because descriptors or memory have run out.
pub(crate) async fn find(
    stages: FileStages,
    host: &Arc<Host>,
    path: &[u8],
    metadata: Metadata,
    known: Sources,
) -> Sources {
    let mut sources = Sources::default();
    let config = &host.config;
    if !config.precompressed && !config.compress || is_encoded(path) {
        return sources;
    }
    let sizes = encode::MIN_BYTES..=encode::MAX_BYTES;
    let makes = config.compress
        && sizes.contains(&metadata.length)
        && host.rules.kinds.of(path).is_compressible();
    let otherwise = if makes { Source::Compressed } else { Source::None };
    for ((source, known), coding) in sources.iter_mut().zip(known).zip(Coding::ENCODED) {
        if !config.precompressed {
            *source = otherwise;
            continue;
        }
        *source = match disk::open(stages, host, &precompressed_path(path, coding)).await {
            Ok(Opened { metadata: beside, .. })
                if beside.kind == FileKind::File && beside.modified_ns >= metadata.modified_ns =>
            {
                Source::Precompressed(beside.into())
            }
            Err(Failure::Busy) if known != Source::None => known,
            _ => otherwise,
        };
    }
    sources
}

/// The path of the precompressed file for this encoding.
pub(crate) fn precompressed_path(path: &[u8], coding: Coding) -> Vec<u8> {
    [path, coding.suffix().as_bytes()].concat()
}

/// Whether the path is that of a precompressed file.
fn is_encoded(path: &[u8]) -> bool {
    Coding::ENCODED.iter().any(|coding| path.ends_with(coding.suffix().as_bytes()))
}
