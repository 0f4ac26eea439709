//! An HTTP/2 client at the level of frames. It sends fields as literals (RFC 7541 §6.2.2), and parses only the
//! status of responses.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::wait::TIMEOUT;

/// Types of frames (RFC 9113 §6).
pub mod kind {
    /// Content.
    pub const DATA: u8 = 0;
    /// A head.
    pub const HEADERS: u8 = 1;
    /// The end of a stream.
    pub const RST_STREAM: u8 = 3;
    /// Settings.
    pub const SETTINGS: u8 = 4;
    /// A ping, or its answer.
    pub const PING: u8 = 6;
    /// The end of a connection.
    pub const GOAWAY: u8 = 7;
    /// A larger window.
    pub const WINDOW_UPDATE: u8 = 8;
}

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// A frame.
pub struct Frame {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream; 0 for the connection.
    pub stream: u32,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl Frame {
    /// The frame as it is sent.
    pub fn bytes(&self) -> Vec<u8> {
        let [_, a, b, c] = (self.payload.len() as u32).to_be_bytes();
        let mut bytes = vec![a, b, c, self.kind, self.flags];
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }
}

/// Received parts of a response.
#[derive(Default)]
struct Answer {
    status: Option<u16>,
    content: Vec<u8>,
    is_ended: bool,
    reset: Option<u32>,
}

/// A connection.
pub struct Connection {
    stream: TcpStream,
    rest: Vec<u8>,
    answers: HashMap<u32, Answer>,
    /// Codes of the received GOAWAY frames.
    pub goaway_codes: Vec<u32>,
    /// Number of answers to pings.
    pub pongs: usize,
    /// Bytes by which the server has opened the windows of streams, and of the connection, which is 0.
    opened: HashMap<u32, u32>,
    closed: bool,
}

impl Connection {
    /// Connects with the client's settings.
    pub fn open(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut connection = Self {
            stream,
            rest: Vec::new(),
            answers: HashMap::new(),
            goaway_codes: Vec::new(),
            pongs: 0,
            opened: HashMap::new(),
            closed: false,
        };
        connection.send_bytes(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let settings = settings
            .iter()
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()[..]].concat());
        connection.send(kind::SETTINGS, 0, 0, &settings.collect::<Vec<_>>());
        connection
    }

    /// Sends bytes and ignores errors: a server that has sent GOAWAY need not read them.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends a frame.
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let frame = Frame { kind, flags, stream, payload: payload.to_vec() };
        self.send_bytes(&frame.bytes());
    }

    /// Sends a head, which `ends` the stream or not.
    pub fn headers(&mut self, stream: u32, ends_stream: bool, fields: &[(&str, &str)]) {
        let mut block = Vec::new();
        for (name, value) in fields {
            block.push(0);
            for text in [name, value] {
                assert!(text.len() < 127);
                block.push(text.len() as u8);
                block.extend(text.as_bytes());
            }
        }
        let flags = END_HEADERS | if ends_stream { END_STREAM } else { 0 };
        self.send(kind::HEADERS, flags, stream, &block);
    }

    /// Sends a GET.
    pub fn get(&mut self, stream: u32, path: &str) {
        self.headers(
            stream,
            true,
            &[(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "a")],
        );
    }

    /// Sends the head of a POST.
    pub fn post(&mut self, stream: u32, path: &str) {
        self.headers(
            stream,
            false,
            &[(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "a")],
        );
    }

    /// Sends content, which `ends` the stream or not.
    pub fn data(&mut self, stream: u32, ends_stream: bool, content: &[u8]) {
        self.send(kind::DATA, if ends_stream { END_STREAM } else { 0 }, stream, content);
    }

    /// Resets a stream with CANCEL.
    pub fn cancel(&mut self, stream: u32) {
        self.send(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }

    /// Reads until the condition holds.
    #[track_caller]
    pub fn read_until(&mut self, mut condition: impl FnMut(&Self) -> bool) {
        while !condition(self) {
            assert!(self.read(), "the connection is closed; GOAWAY codes: {:?}", self.goaway_codes);
        }
    }

    /// Reads a complete response: status and content.
    #[track_caller]
    pub fn answer(&mut self, stream: u32) -> (u16, Vec<u8>) {
        self.read_until(|connection| {
            connection.answers.get(&stream).is_some_and(|answer| answer.is_ended)
        });
        let answer = self.answers.remove(&stream).unwrap();
        (answer.status.expect("a status"), answer.content)
    }

    /// Like [`answer`](Self::answer), with a window for all of it.
    #[track_caller]
    pub fn open_windows_and_answer(&mut self, stream: u32) -> (u16, Vec<u8>) {
        for stream in [0, stream] {
            self.send(kind::WINDOW_UPDATE, 0, stream, &(1_u32 << 30).to_be_bytes());
        }
        self.answer(stream)
    }

    /// The status of a response so far.
    pub fn status(&self, stream: u32) -> Option<u16> {
        self.answers.get(&stream)?.status
    }

    /// The content of a response so far.
    pub fn content(&self, stream: u32) -> &[u8] {
        self.answers.get(&stream).map_or(&[], |answer| &answer.content)
    }

    /// Bytes by which the server has opened the window of a stream.
    pub fn opened(&self, stream: u32) -> u32 {
        self.opened.get(&stream).copied().unwrap_or_default()
    }

    /// The code with which a stream was reset.
    pub fn reset(&self, stream: u32) -> Option<u32> {
        self.answers.get(&stream)?.reset
    }

    /// Whether a response is complete, or its stream was reset.
    pub fn is_over(&self, stream: u32) -> bool {
        self.answers.get(&stream).is_some_and(|answer| answer.is_ended || answer.reset.is_some())
    }

    /// Reads to the end and returns the code of the server's GOAWAY.
    #[track_caller]
    pub fn goaway_code(&mut self) -> u32 {
        while self.read() {}
        *self.goaway_codes.last().expect("an error message")
    }

    /// Reads a frame; returns false at the end.
    fn read(&mut self) -> bool {
        loop {
            if let Some((head, rest)) = self.rest.split_first_chunk::<9>() {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                let (kind, flags) = (head[3], head[4]);
                if rest.len() >= length {
                    let payload = rest[..length].to_vec();
                    self.rest.drain(..9 + length);
                    self.handle_frame(kind, flags, stream, &payload);
                    return true;
                }
            }
            let mut piece = [0; 16 * 1024];
            match self.stream.read(&mut piece) {
                Ok(length @ 1..) if !self.closed => self.rest.extend_from_slice(&piece[..length]),
                // Bytes in flight to a server that has closed may cause a reset.
                Ok(_) | Err(_) => {
                    self.closed = true;
                    return false;
                }
            }
        }
    }

    fn handle_frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        match kind {
            kind::SETTINGS if flags & ACK == 0 => self.send(kind::SETTINGS, ACK, 0, &[]),
            kind::PING if flags & ACK == 0 => self.send(kind::PING, ACK, 0, payload),
            kind::PING => self.pongs += 1,
            kind::WINDOW_UPDATE => *self.opened.entry(stream).or_default() += number(0),
            kind::GOAWAY => self.goaway_codes.push(number(4)),
            kind::RST_STREAM => {
                self.answers.entry(stream).or_default().reset = Some(number(0));
            }
            kind::DATA | kind::HEADERS => {
                let answer = self.answers.entry(stream).or_default();
                if kind == kind::DATA {
                    answer.content.extend_from_slice(payload);
                } else {
                    answer.status = Some(status(payload));
                }
                answer.is_ended = flags & END_STREAM != 0;
            }
            _ => (),
        }
    }
}

/// The status at the beginning of a header block: an entry of the static table (RFC 7541 §A), or a literal with
/// an indexed name.
fn status(block: &[u8]) -> u16 {
    // A dynamic table size update may come first.
    let block = if block[0] & 0xe0 == 0x20 { &block[1..] } else { block };
    match block[0] {
        0x88 => 200,
        0x89 => 204,
        0x8a => 206,
        0x8b => 304,
        0x8c => 400,
        0x8d => 404,
        0x8e => 500,
        // Literal with the name of entry 8, with or without indexing: three digits, or Huffman-coded ones.
        0x48 | 0x08 => match usize::from(block[1]) {
            3 => str::from_utf8(&block[2..5]).unwrap().parse().unwrap(),
            packed => huffman(&block[2..2 + (packed & 0x7f)]),
        },
        other => panic!("expected a status, got {other:#x}"),
    }
}

/// Three digits in Huffman code (RFC 7541 §B): 0 to 2 have five bits, the others six.
fn huffman(bytes: &[u8]) -> u16 {
    let bits = bytes.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
    let mut bits = bits << (32 - 8 * bytes.len());
    let mut status = 0;
    for _ in 0..3 {
        let (digit, length) = match bits >> 27 {
            five @ 0..=2 => (five, 5),
            _ => ((bits >> 26) - 0x19 + 3, 6),
        };
        status = status * 10 + digit as u16;
        bits <<= length;
    }
    status
}
