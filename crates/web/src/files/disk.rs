//! Opens files, as operations of the disk stage.

use std::io;
use std::sync::Arc;

use phalanx::fs::{File, Metadata};

use crate::files::stages::FileStages;
use crate::site::Host;

/// An open file with its metadata.
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) metadata: Metadata,
}

/// Opens `path` below the host's root or an alias, as an operation of the disk stage.
///
/// # Errors
/// As [`phalanx::fs::Dir::open_file`].
pub(crate) async fn open(stages: FileStages, host: &Arc<Host>, path: &[u8]) -> io::Result<Opened> {
    let (host, path) = (host.clone(), path.to_vec());
    let call = stages.disk.call(move |_| async move {
        let (folder, path) = host.locate(&path);
        let file = folder.open_file(path, host.config.symlinks).await?;
        let metadata = file.metadata()?;
        Ok(Opened { file, metadata })
    });
    call.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
