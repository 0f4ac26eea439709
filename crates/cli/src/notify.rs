//! Service notifications to systemd (sd_notify(3)) through the socket named by `NOTIFY_SOCKET`, if it is set.
//! Failures to send are ignored.

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// Timeout for sending.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The notification socket, if any.
pub(crate) struct Notify(Option<UnixDatagram>);

impl Notify {
    /// Connects to the socket named in the environment.
    pub(crate) fn from_environment() -> Self {
        let named = std::env::var_os("NOTIFY_SOCKET");
        Self(named.and_then(|path| connect(&path).ok()))
    }

    /// The service is ready, initially or after a reload.
    pub(crate) fn ready(&self) {
        self.say("READY=1");
    }

    /// The service reloads its configuration. The time stamp is required by systemd to distinguish reloads.
    pub(crate) fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// The service is shutting down.
    pub(crate) fn stopping(&self) {
        self.say("STOPPING=1");
    }

    fn say(&self, text: &str) {
        if let Self(Some(socket)) = self {
            let _ = socket.send(text.as_bytes());
        }
    }
}

fn connect(path: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(TIMEOUT))?;
    // The name of an abstract socket begins with @.
    #[cfg(target_os = "linux")]
    if let Some(name) = path.as_encoded_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        socket.connect_addr(&address)?;
        return Ok(socket);
    }
    socket.connect(path)?;
    Ok(socket)
}
