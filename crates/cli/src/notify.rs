//! Telling systemd how the service does (sd_notify(3)): a word on the socket that `NOTIFY_SOCKET` names,
//! where there is one. Nobody waits for an answer, and a word that cannot be said is not.

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// Whoever started the service reads what it is told, or has to do without.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Who is told, if somebody is.
pub(crate) struct Notify(Option<UnixDatagram>);

impl Notify {
    /// Whoever the environment names.
    pub(crate) fn from_environment() -> Self {
        let named = std::env::var_os("NOTIFY_SOCKET");
        Self(named.and_then(|path| connect(&path).ok()))
    }

    /// The service does what it is there for, or does it again.
    pub(crate) fn ready(&self) {
        self.say("READY=1");
    }

    /// The configuration is read again, and since when: systemd asks for the time, to tell this reload
    /// from the one before.
    pub(crate) fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// The service is about to end.
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
    // A socket without a file has a name that is written with an @ in front.
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
