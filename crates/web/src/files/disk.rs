//! Opens files, as operations of the disk stage.

use std::io;
use std::sync::Arc;

use phalanx::fs::{File, Metadata};

use crate::files::failure::Failure;
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
/// Like [`phalanx::fs::Dir::open_file`]; [`Failure::Busy`] if the processor has too many operations.
pub(crate) async fn open(
    stages: FileStages,
    host: &Arc<Host>,
    path: &[u8],
) -> Result<Opened, Failure> {
    let (host, path) = (host.clone(), path.to_vec());
    let call = stages.disk.call(move |_| async move {
        let (folder, path) = host.locate(&path);
        let file = folder.open_file(path, host.config.symlinks).await?;
        let metadata = file.metadata()?;
        io::Result::Ok(Opened { file, metadata })
    });
    call.await.map_err(|error| Failure::from(&error))?.map_err(Failure::from)
}
