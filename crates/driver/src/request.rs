//! Requests of a processor to its driver, and their completions.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::net::SocketAddr;

use bytes::Bytes;

use crate::{Address, Chunk, File};

/// An identifier of a request in flight, which the caller chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// A handle of a socket that a driver owns. Requests on a closed socket, or on a socket of another driver, fail with
/// `EBADF`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Socket {
    pub(crate) index: u32,
    pub(crate) generation: u32,
    /// The number of the driver's socket table.
    pub(crate) table: u32,
}

impl fmt::Debug for Socket {
    /// Omits the table's number, which differs between two runs of one simulation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Socket({}.{})", self.index, self.generation)
    }
}

/// Bytes to send: `head`, then `body`.
///
/// A driver discards panics of the body's destructor ([`Bytes::from_owner`]).
#[derive(Debug, Default)]
pub struct Payload {
    /// Sent first. [`Done::Sent`] returns it empty, so that its memory can be reused.
    pub head: Vec<u8>,
    /// Sent after the head. It is reference-counted, so a cached body is not copied.
    pub body: Bytes,
}

/// Options for opening a file with [`Request::Open`]. The descriptor is always close-on-exec, and the path never leaves
/// its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHow {
    /// Which symbolic links may be followed.
    pub links: SymlinkPolicy,
    /// The access mode.
    pub access: Access,
}

/// The symbolic links that may be followed in a path. A link that leads out of the directory is never followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SymlinkPolicy {
    /// No links. A path with a link fails with `ELOOP`.
    #[default]
    Deny,
    /// Links that have the same owner as their target; `ELOOP` for others. A path with a link is resolved on a helper
    /// thread, component by component; a path without links has no extra cost. Only supported for reading, and only on
    /// Linux; elsewhere the same as `Deny`.
    OwnerMatches,
    /// All links.
    Follow,
}

impl From<bool> for SymlinkPolicy {
    /// `Follow` for true, `Deny` for false.
    fn from(follow: bool) -> Self {
        if follow { Self::Follow } else { Self::Deny }
    }
}

/// The way in which the bytes of a file are passed to a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FileTransfer {
    /// The kernel copies the bytes. Later changes of the file do not affect the bytes that were sent. If the file is
    /// truncated during a copy, the request does not send its last byte, and the bytes before it may be zeros.
    #[default]
    Copy,
    /// The socket queues the file's own pages, if the system supports it. If the file is overwritten or truncated
    /// before the peer has received them, the peer may receive newer contents or zeros. Use it only for files that are
    /// replaced rather than modified in place.
    ZeroCopy,
}

/// The access mode of an opened file. A created file has mode 0666 less the process's umask, unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Reads a file, or resolves paths beneath a directory.
    #[default]
    Read,
    /// Reads and writes an existing file.
    Write,
    /// Reads and writes. Creates the file if it does not exist; keeps its content if it does.
    Create,
    /// Like `Create`, but only its owner can access a created file (mode 0600).
    CreatePrivate,
    /// Creates a file for reading and writing; `EEXIST` if the name exists, even as a link.
    CreateNew,
}

/// A request to a driver. On a socket, a request that follows a cancelled one in the same direction waits until the
/// cancelled one has completed.
#[derive(Debug)]
pub enum Request {
    /// Waits for a connection: [`Done::Accepted`].
    Accept {
        /// A listening socket.
        listener: Socket,
    },
    /// Opens a TCP or Unix stream connection: [`Done::Connected`].
    Connect {
        /// The address of the listening socket.
        address: Address,
    },
    /// Waits for bytes: [`Done::Received`], with an empty chunk at the end of the stream. At most one receive or skip
    /// is in flight on a socket; a second one fails with `EBUSY`.
    Receive {
        /// A connected stream socket.
        socket: Socket,
        /// The maximum number of bytes, at least one. A chunk is never larger than
        /// [`Config::buffer_size`](crate::Config::buffer_size).
        max: usize,
    },
    /// Waits for bytes and discards them: [`Done::Skipped`] if the kernel can discard them without a copy, otherwise
    /// [`Done::Received`], which may contain more than `max` bytes. In all other respects it is a receive.
    Skip {
        /// A connected stream socket.
        socket: Socket,
        /// The maximum number of bytes to discard, at least one.
        max: u64,
    },
    /// Sends all of `payload`: [`Done::Sent`]. At most one [`Send`](Self::Send), [`SendVectored`](Self::SendVectored)
    /// or [`SendFile`](Self::SendFile) is in flight on a socket; a second one fails with `EBUSY`.
    Send {
        /// A connected stream socket.
        socket: Socket,
        /// The bytes. An empty payload completes immediately.
        payload: Payload,
    },
    /// Sends all of `parts` in order, up to 16 of them in one system call: [`Done::Sent`], with an empty vector.
    SendVectored {
        /// A connected stream socket.
        socket: Socket,
        /// The bytes. A driver discards panics of their destructors.
        parts: Vec<Bytes>,
    },
    /// Sends `head`, then up to `length` bytes of `file` from `offset` out of the page cache: [`Done::SentFile`]. Ends
    /// early at the end of the file and where it would have to wait for a disk; the caller must then read and send the
    /// missing bytes.
    ///
    /// If it sends all of `length`, the bytes are the content of the file at that moment, unless `transfer` is
    /// [`FileTransfer::ZeroCopy`]. If the file is truncated during the request, the request ends early or fails with
    /// `UnexpectedEof`. The last bytes sent may then be zeros, so the connection must be closed.
    SendFile {
        /// A connected stream socket.
        socket: Socket,
        /// Sent first; [`Done::SentFile`] returns it empty.
        head: Vec<u8>,
        /// An open file.
        file: File,
        /// From the start of the file, in bytes.
        offset: u64,
        /// The maximum number of bytes of the file. Zero sends only the head.
        length: u64,
        /// Whether the bytes are copied.
        transfer: FileTransfer,
    },
    /// Sends one datagram, or several to the same destination: [`Done::SentDatagram`]. Any number of requests may be in
    /// flight on a socket; they are not ordered.
    SendTo {
        /// A datagram socket.
        socket: Socket,
        /// The datagram, which may be empty; `EMSGSIZE` above 65,507 bytes (IPv4). A driver discards panics of its
        /// destructor.
        datagram: Bytes,
        /// The destination; `None` for the address to which the socket is connected.
        to: Option<SocketAddr>,
        /// Divides `datagram` into up to 64 datagrams of this many bytes, of which the last may be shorter. Fails with
        /// `EINVAL` or `EIO` if the kernel ([`Driver::has_segments`](crate::Driver::has_segments)) or the network
        /// device does not support it.
        segment: Option<u16>,
    },
    /// Waits for one datagram: [`Done::Datagram`]. At most one is in flight on a socket; a second one fails with
    /// `EBUSY`.
    ReceiveFrom {
        /// A datagram socket.
        socket: Socket,
        /// Cleared, then filled.
        buffer: Vec<u8>,
        /// The maximum number of bytes; the rest of a longer datagram is discarded.
        max: usize,
    },
    /// Opens a file or directory beneath `directory`: [`Done::Opened`].
    Open {
        /// The directory in which the path starts.
        directory: File,
        /// A relative path.
        path: CString,
        /// The access mode, and which links to follow.
        how: OpenHow,
    },
    /// Reads up to `length` bytes at `offset`: [`Done::Read`]. Short only at the end of the file.
    ReadAt {
        /// An open file.
        file: File,
        /// Cleared, then filled.
        buffer: Vec<u8>,
        /// From the start of the file, in bytes.
        offset: u64,
        /// The maximum number of bytes.
        length: usize,
    },
    /// Writes all of `bytes` at `offset`: [`Done::Written`]. The driver continues short writes, so an error (`ENOSPC`,
    /// `EFBIG`, …) may occur after a part was written. Requests in flight are not ordered: wait for one before you
    /// start another that depends on it.
    WriteAt {
        /// A file open for writing.
        file: File,
        /// The bytes, reference-counted so that they need not be copied. Empty bytes complete immediately. A driver
        /// discards panics of their destructor.
        bytes: Bytes,
        /// From the start of the file, in bytes.
        offset: u64,
    },
    /// Flushes completed writes of `file` to the disk: [`Done::Synced`]. The kernel reports an error only once;
    /// after an error it is unknown which writes reached the disk.
    Sync {
        /// An open file, or a directory to flush its entries.
        file: File,
        /// Omits metadata that reading the content does not need, such as the modification time.
        data_only: bool,
    },
}

/// The result of a request.
#[derive(Debug)]
pub enum Done {
    /// A new connection.
    Accepted(Socket),
    /// A new connection.
    Connected(Socket),
    /// Received bytes; an empty chunk at the end of the stream.
    Received(Chunk),
    /// The number of bytes that were discarded, at least one.
    Skipped(u64),
    /// Everything was sent. Contains the payload's head, cleared.
    Sent(Vec<u8>),
    /// The head and part of the file were sent.
    SentFile {
        /// The head's memory, cleared.
        head: Vec<u8>,
        /// The number of bytes of the file that were sent. It is less than requested at the end of the file and where
        /// the file is not in the page cache.
        bytes: u64,
    },
    /// A datagram was handed to the network, which may still lose it.
    SentDatagram,
    /// A received datagram.
    Datagram(Box<Datagram>),
    /// An open file.
    Opened(File),
    /// The bytes read; fewer than requested only at the end of the file.
    Read(Vec<u8>),
    /// All bytes are written to the page cache, but perhaps not to the disk.
    Written,
    /// Earlier writes are on the disk.
    Synced,
}

/// A received datagram.
#[derive(Debug)]
pub struct Datagram {
    /// Its bytes; may be empty.
    pub bytes: Vec<u8>,
    /// The sender.
    pub from: SocketAddr,
    /// Whether it was longer than requested, so that its end was discarded.
    pub truncated: bool,
}

/// The completion of a request. Each request has exactly one.
#[derive(Debug)]
pub struct Completion {
    /// The request's token.
    pub token: Token,
    /// The result, or the error.
    pub result: io::Result<Done>,
}

impl From<Vec<u8>> for Payload {
    /// A head without a body.
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
    /// The number of bytes in head and body.
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
