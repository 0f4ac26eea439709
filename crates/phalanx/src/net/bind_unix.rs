//! Binding Unix sockets.

use std::fs::{File, Permissions, set_permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};

use super::bind::{BACKLOG, check_processors, with_retries};

/// Binds listening Unix sockets to `path`, one for each of `processors`. Pass each to
/// [`Listener::new`](super::Listener::new) on one of the processors. They are descriptors of the same socket, so a
/// connection goes to the first processor that accepts it.
///
/// The socket's file is not removed when the program ends. If a socket file exists but no process has the socket open,
/// it is replaced. Processes with write permission for the file can connect. Its mode is 0777 minus the umask, or the
/// one passed to [`bind_unix_with_mode`].
///
/// If a process listens at `path`, the function retries for up to two seconds, like [`bind`](super::bind()).
///
/// # Errors
/// The errors of `bind(2)`, such as `AddrInUse` if a process listens at `path`. `AlreadyExists` if the file is not a
/// socket, and `PermissionDenied` if this process must not connect to it; both are returned immediately and contain the
/// path. `InvalidInput` if the path is empty, contains a zero byte or has more than 107 bytes, or if `processors` is
/// zero. Linux's abstract names, which start with a zero byte, are not supported.
///
/// `AddrInUse` also if another process keeps the directory of `path` locked (`flock(2)`) for two seconds.
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

/// Like [`bind_unix`], but with a mode for the socket's file, such as `0o660`. No process can connect before the mode
/// is set.
///
/// # Errors
/// The errors of [`bind_unix`], and `chmod(2)`.
pub fn bind_unix_with_mode(
    path: impl AsRef<Path>,
    mode: u32,
    processors: usize,
) -> io::Result<Vec<UnixListener>> {
    bind_at(path.as_ref(), Some(mode), processors)
}

fn bind_at(path: &Path, mode: Option<u32>, processors: usize) -> io::Result<Vec<UnixListener>> {
    check_processors(processors)?;
    let listener = with_retries(|| bind_once(path, mode))?;
    let clones = (1..processors).map(|_| listener.try_clone());
    let mut listeners = clones.collect::<io::Result<Vec<_>>>()?;
    listeners.push(listener);
    Ok(listeners)
}

fn bind_once(path: &Path, mode: Option<u32>) -> io::Result<UnixListener> {
    check_path(path)?;
    let address = SockAddr::unix(path)?;
    // The lock prevents another process from mistaking the new socket for a stale one before `listen(2)`. If the
    // directory cannot be locked, only this race is not prevented.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let folder = File::open(parent).ok();
    if let Some(folder) = &folder
        && flock(folder, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
    {
        return Err(is_locked(parent));
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    if let Err(error) = socket.bind(&address) {
        if error.kind() != io::ErrorKind::AddrInUse {
            return Err(error);
        }
        check_is_stale(path)?;
        std::fs::remove_file(path)?;
        socket.bind(&address)?;
    }
    if let Some(mode) = mode {
        set_permissions(path, Permissions::from_mode(mode))?;
    }
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// # Errors
/// `InvalidInput` for an empty path, for which the kernel would choose a name, and for a path with a zero byte, at
/// which the kernel would end it.
fn check_path(path: &Path) -> io::Result<()> {
    let message = match path.as_os_str().as_bytes() {
        [] => "the path of a Unix socket is empty",
        bytes if bytes.contains(&0) => "the path of a Unix socket has a zero byte",
        _ => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// The error if another process has locked the directory of the socket.
fn is_locked(directory: &Path) -> io::Error {
    let message = format!(
        "another process has locked the directory {}, as for binding a socket there; if it keeps the lock, stop it, or \
         choose another directory",
        directory.display()
    );
    io::Error::new(io::ErrorKind::AddrInUse, message)
}

/// Checks that `path` is a socket that no process has open.
///
/// # Errors
/// `AddrInUse` if a process has it open, or if it was removed in the meantime. `AlreadyExists` if it is not a socket,
/// and `PermissionDenied` if this process must not connect to it.
fn check_is_stale(path: &Path) -> io::Result<()> {
    let in_use = || io::Error::from(io::ErrorKind::AddrInUse);
    let error = |kind, message| io::Error::new(kind, format!("{} {message}", path.display()));
    let file = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(in_use()),
        file => file?,
    };
    if !file.file_type().is_socket() {
        let message = "exists and is not a socket; remove it, or choose another path";
        return Err(error(io::ErrorKind::AlreadyExists, message));
    }
    // A datagram socket cannot connect to a stream socket (`EPROTOTYPE`). So the process that has the socket open gets
    // no connection to accept, and a full backlog does not block this call.
    let probe = Socket::new(Domain::UNIX, Type::DGRAM, None)?;
    match probe.connect(&SockAddr::unix(path)?).map_err(|error| error.kind()) {
        Err(io::ErrorKind::ConnectionRefused) => Ok(()),
        Err(kind @ io::ErrorKind::PermissionDenied) => {
            let message = "is a socket to which this process must not connect, so another process may have it open; \
                        remove it, or choose another path";
            Err(error(kind, message))
        }
        _ => Err(in_use()),
    }
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
        let error = bind_unix(&file, 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let text = format!("{} exists and is not a socket", file.display());
        assert!(error.to_string().starts_with(&text), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    }

    #[test]
    fn a_live_unix_socket_gets_no_connection() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let live = bind_unix(&path, 1).unwrap().remove(0);
        live.set_nonblocking(true).unwrap();
        assert_eq!(bind_once(&path, None).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(live.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn paths_that_the_kernel_would_change_are_refused() {
        let path = tempfile::tempdir().unwrap().path().join("a\0b");
        for path in [Path::new(""), &path, Path::new("\0phalanx")] {
            let error = bind_unix(path, 1).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path:?}");
            assert!(error.to_string().starts_with("the path of a Unix socket"), "{error}");
        }
    }

    #[test]
    fn a_lock_of_another_process_has_a_message_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let folder = File::open(directory.path()).unwrap();
        flock(&folder, FlockOperation::LockExclusive).unwrap();
        let error = bind_unix(directory.path().join("socket"), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        let text =
            format!("another process has locked the directory {}", directory.path().display());
        assert!(error.to_string().starts_with(&text), "{error}");
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
