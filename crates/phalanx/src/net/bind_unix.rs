//! Binding Unix sockets.

use std::fs::{File, Permissions, set_permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};

use super::bind::{BACKLOG, retried};

/// Listening Unix sockets at `path`, one for each of `processors`, for [`Listener::new`](super::Listener::new) on that
/// processor. They are descriptors of one socket, so a connection goes to the first processor that accepts it.
///
/// The socket's file is not removed at the end. A file that another process left behind, to which connections are
/// refused, is replaced. Processes with write permission for the file can connect; its mode is 0777 less the umask, or the
/// one given to [`bind_unix_with_mode`].
///
/// If a process listens at `path`, the call is repeated for up to two seconds, as by [`bind`](super::bind()).
///
/// # Errors
/// As `bind(2)`: `AddrInUse` if a process listens at `path`, or if the file is not a socket. `InvalidInput` for a path
/// of more than 107 bytes.
///
/// ```
/// use phalanx::net::{IoTimeout, Listener, Stream, bind_unix};
/// use phalanx::{Graph, Runtime};
/// use std::sync::Mutex;
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("socket");
/// let sockets = Mutex::new(bind_unix(&path, 1)?);
/// let mut graph = Graph::new();
/// let clients = graph.shared("clients", ());
/// Runtime::new().processors(1).run(graph, |start| {
///     let listener = Listener::new(sockets.lock().unwrap().pop().expect("one for each processor"))?;
///     clients.dispatch(move |_| listener.accept_each(move |stream| {
///         let _ = clients.dispatch(move |_| async move {
///             let _ = stream.write(b"hello\n".to_vec(), IoTimeout::NONE).await;
///         });
///     }))?;
///     # let (control, path) = (start.control(), path.clone());
///     clients.dispatch(move |_| async move {
///         let stream = Stream::connect_unix(path, IoTimeout::NONE).await.unwrap();
///         let mut greeting = [0; 6];
///         stream.read_exact(&mut greeting, IoTimeout::NONE).await.unwrap();
///         assert_eq!(&greeting, b"hello\n");
///         # control.drain();
///     })?;
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn bind_unix(path: impl AsRef<Path>, processors: usize) -> io::Result<Vec<UnixListener>> {
    bind_at(path.as_ref(), None, processors)
}

/// As [`bind_unix`], with a mode of the socket's file such as `0o660`. No process can connect before the file has it.
///
/// # Errors
/// As [`bind_unix`], and `chmod(2)`.
pub fn bind_unix_with_mode(
    path: impl AsRef<Path>,
    mode: u32,
    processors: usize,
) -> io::Result<Vec<UnixListener>> {
    bind_at(path.as_ref(), Some(mode), processors)
}

fn bind_at(path: &Path, mode: Option<u32>, processors: usize) -> io::Result<Vec<UnixListener>> {
    let listener = retried(|| bind_once(path, mode))?;
    let clones = (1..processors).map(|_| listener.try_clone());
    let mut listeners = clones.collect::<io::Result<Vec<_>>>()?;
    listeners.push(listener);
    Ok(listeners)
}

fn bind_once(path: &Path, mode: Option<u32>) -> io::Result<UnixListener> {
    // Between the check of an old socket and `listen(2)`, no other process may take the new one for an old one. If the
    // directory cannot be locked, only that is not guaranteed.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = File::open(parent.unwrap_or(Path::new("."))).ok();
    if let Some(folder) = &folder
        && flock(folder, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
    {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let address = SockAddr::unix(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    if let Err(error) = socket.bind(&address) {
        if error.kind() != io::ErrorKind::AddrInUse || !is_stale(path) {
            return Err(error);
        }
        std::fs::remove_file(path)?;
        socket.bind(&address)?;
    }
    if let Some(mode) = mode {
        set_permissions(path, Permissions::from_mode(mode))?;
    }
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Whether `path` is a socket on which no process listens any more.
fn is_stale(path: &Path) -> bool {
    let is_socket = path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket());
    is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_unix_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let old = bind_unix(&path, 2).unwrap();
        assert_eq!(old.len(), 2);
        assert_eq!(bind_once(&path, None).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(old);
        assert_eq!(bind_unix(&path, 1).unwrap().len(), 1);
        let file = directory.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        assert_eq!(bind_once(&file, None).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    }

    #[test]
    fn the_mode_is_independent_of_the_umask() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        for mode in [0o600, 0o660, 0o666] {
            let sockets = bind_unix_with_mode(&path, mode, 2).unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode);
            drop(sockets);
        }
    }
}
