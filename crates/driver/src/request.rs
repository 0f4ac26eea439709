//! What a processor asks of its driver, and what comes back.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::net::SocketAddr;

use bytes::Bytes;

use crate::{Chunk, File};

/// Names one request in flight; chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// A socket in a driver's care. Plain and copyable: a stale one, or one of another driver, names
/// nothing and its requests fail with `EBADF`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Socket {
    pub(crate) index: u32,
    pub(crate) generation: u32,
    /// The driver's.
    pub(crate) table: u32,
}

impl fmt::Debug for Socket {
    /// Without the driver's number, which differs between two runs of one simulation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Socket({}.{})", self.index, self.generation)
    }
}

/// Bytes to send: `head`, then `body`.
///
/// A driver discards panics of the body's destructor ([`Bytes::from_owner`]).
#[derive(Debug, Default)]
pub struct Payload {
    /// Sent first, and given back empty by [`Done::Sent`] so that its memory can be used again.
    pub head: Vec<u8>,
    /// Sent after the head; shared, so that a cached body is not copied.
    pub body: Bytes,
}

/// How [`Request::Open`] opens: always close-on-exec and beneath its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHow {
    /// Which symbolic links may be followed.
    pub links: Links,
    /// What the file is opened for.
    pub access: Access,
}

/// Which symbolic links may be followed on the way to a file: never one that leads out of the
/// directory beneath which it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Links {
    /// None: `ELOOP`.
    #[default]
    Refused,
    /// Those that belong to the same user as what they lead to; `ELOOP` for others. Costs a
    /// helper thread and a walk where there is a link, and nothing where there is none. For reading
    /// only, and only on Linux; elsewhere as `Refused`.
    SameOwner,
    /// All.
    Followed,
}

impl From<bool> for Links {
    /// All, or none.
    fn from(follow: bool) -> Self {
        if follow { Self::Followed } else { Self::Refused }
    }
}

/// What a file is opened for. A file that is made may be read and written by all whom the
/// process's umask does not exclude (mode 0666, as `open(2)` has it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Reading a file, or reaching what is beneath a directory.
    #[default]
    Read,
    /// Reading and writing a file that is there.
    Write,
    /// Reading and writing; made when it is not there, its content kept when it is.
    Create,
    /// As `Create`; a file that is made is its owner's alone (mode 0600).
    CreatePrivate,
    /// Reading and writing a file that is made; `EEXIST` when the name is taken, be it by a link.
    CreateNew,
}

/// One thing a driver can do.
#[derive(Debug)]
pub enum Request {
    /// Wait for a connection: [`Done::Accepted`].
    Accept {
        /// A listening socket.
        listener: Socket,
    },
    /// Open a TCP connection: [`Done::Connected`].
    Connect {
        /// Where to.
        address: SocketAddr,
    },
    /// Wait for bytes: [`Done::Received`], with an empty chunk at the end of the stream. At most
    /// one at a time on a socket; a second one fails with `EBUSY`.
    Receive {
        /// A connected socket.
        socket: Socket,
    },
    /// Wait for bytes that nobody wants: [`Done::Skipped`] where the kernel can drop them where they
    /// are, and otherwise [`Done::Received`], which may be more than was to be skipped. A receive in
    /// all else.
    Skip {
        /// A connected socket.
        socket: Socket,
        /// At most so many bytes; more than none.
        most: u64,
    },
    /// Send all of `payload`: [`Done::Sent`]. At most one at a time on a socket; a second one
    /// fails with `EBUSY`.
    Send {
        /// A connected socket.
        socket: Socket,
        /// What to send. Empty completes at once.
        payload: Payload,
    },
    /// Send `head`, and behind it up to `length` bytes of `file` from `offset` out of the kernel's own
    /// memory of the file: [`Done::SentFile`]. Ends early where the file does, and where going on would
    /// wait for a disk: what is missing then is to be read. One with [`Request::Send`]: at most one of
    /// both at a time on a socket, a second one fails with `EBUSY`.
    ///
    /// What is sent is what the file holds at that moment, and never more than it holds; it fails with
    /// `UnexpectedEof` when it is cut off in the very moment of a copy.
    SendFile {
        /// A connected socket.
        socket: Socket,
        /// Sent first, and given back empty by [`Done::SentFile`].
        head: Vec<u8>,
        /// An open file.
        file: File,
        /// From the start of the file, in bytes.
        offset: u64,
        /// At most this many bytes of the file. None sends the head alone.
        length: u64,
    },
    /// Open a file or directory beneath `directory`, never leaving it: [`Done::Opened`].
    Open {
        /// Where the path starts.
        directory: File,
        /// A relative path.
        path: CString,
        /// How.
        how: OpenHow,
    },
    /// Read up to `length` bytes at `offset`: [`Done::Read`]. Short only at the end of the file.
    ReadAt {
        /// An open file.
        file: File,
        /// Cleared, then filled.
        buffer: Vec<u8>,
        /// From the start of the file, in bytes.
        offset: u64,
        /// At most this many bytes.
        length: usize,
    },
    /// Write all of `bytes` at `offset`: [`Done::Written`]. What the kernel takes in parts is
    /// continued until the end; an error (`ENOSPC`, `EFBIG`, …) may come after a part was written.
    /// Requests in flight are in no order: await one before the next that depends on it.
    WriteAt {
        /// A file open for writing.
        file: File,
        /// What to write; shared, so that it need not be copied. Empty completes at once. A driver
        /// discards panics of its destructor.
        bytes: Bytes,
        /// From the start of the file, in bytes.
        offset: u64,
    },
    /// Have all that was written to `file` before, and was answered, reach the disk:
    /// [`Done::Synced`]. An error is told once: afterwards nobody knows what has been kept.
    Sync {
        /// An open file, or a directory, whose names are kept so.
        file: File,
        /// Leave out what reading the content again does not need, such as the time of the change.
        data_only: bool,
    },
}

/// What a request came to.
#[derive(Debug)]
pub enum Done {
    /// A new connection.
    Accepted(Socket),
    /// A new connection.
    Connected(Socket),
    /// Bytes; none at the end of the stream.
    Received(Chunk),
    /// So many bytes were dropped, which is more than none.
    Skipped(u64),
    /// All was sent; here is the payload's head again, cleared.
    Sent(Vec<u8>),
    /// The head was sent, and so much of the file: less than was asked for where the file ends or is not
    /// in memory.
    SentFile {
        /// The head's memory, cleared.
        head: Vec<u8>,
        /// Bytes of the file.
        bytes: u64,
    },
    /// An open file.
    Opened(File),
    /// The bytes read; shorter than asked for only at the end of the file.
    Read(Vec<u8>),
    /// All is written, though perhaps not on the disk.
    Written,
    /// What was written before is on the disk.
    Synced,
}

/// The one answer to a request.
#[derive(Debug)]
pub struct Completion {
    /// The request's.
    pub token: Token,
    /// What it came to, or why it failed.
    pub result: io::Result<Done>,
}

impl From<Vec<u8>> for Payload {
    /// These bytes and no body.
    fn from(head: Vec<u8>) -> Self {
        Self { head, body: Bytes::new() }
    }
}

impl From<Bytes> for Payload {
    /// A body without a head.
    fn from(body: Bytes) -> Self {
        Self { head: Vec::new(), body }
    }
}

impl Payload {
    /// Bytes in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.body.is_empty()
    }
}

impl Completion {
    pub(crate) fn ok(token: Token, done: Done) -> Completion {
        Completion { token, result: Ok(done) }
    }

    pub(crate) fn err(token: Token, code: i32) -> Completion {
        Completion { token, result: Err(io::Error::from_raw_os_error(code)) }
    }
}
