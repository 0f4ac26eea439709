//! The load on a server: a request on each connection, then all responses.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);
/// After this time without bytes, a response is complete.
const END_OF_RESPONSE: Duration = Duration::from_millis(200);

/// Connections that send the same request again and again.
pub(super) struct Load {
    streams: Vec<TcpStream>,
    request: Vec<u8>,
    /// The length of each response.
    length: usize,
    buffer: Vec<u8>,
}

impl Load {
    /// Opens the connections. The first response determines the length of all.
    pub(super) fn open(server: SocketAddr, connections: usize, request: &[u8]) -> io::Result<Self> {
        let connect = |_| {
            let stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            Ok::<_, io::Error>(stream)
        };
        let mut streams = (0..connections).map(connect).collect::<io::Result<Vec<_>>>()?;
        let length = length_of_response(&mut streams[0], request)?;
        let buffer = vec![0; length.min(256 << 10)];
        let mut load = Self { streams, request: request.to_vec(), length, buffer };
        // Every thread has been created and has served once.
        load.round()?;
        Ok(load)
    }

    pub(super) fn connections(&self) -> usize {
        self.streams.len()
    }

    /// A request and a response on each connection.
    pub(super) fn round(&mut self) -> io::Result<()> {
        for stream in &mut self.streams {
            stream.write_all(&self.request)?;
        }
        for stream in &mut self.streams {
            let mut left = self.length;
            while left > 0 {
                let part = left.min(self.buffer.len());
                stream.read_exact(&mut self.buffer[..part])?;
                left -= part;
            }
        }
        Ok(())
    }
}

fn length_of_response(stream: &mut TcpStream, request: &[u8]) -> io::Result<usize> {
    stream.write_all(request)?;
    let mut buffer = vec![0; 1 << 20];
    let mut length = stream.read(&mut buffer)?;
    stream.set_read_timeout(Some(END_OF_RESPONSE))?;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(io::Error::other("the server has closed a connection")),
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    stream.set_read_timeout(Some(TIMEOUT))?;
    match length {
        0 => Err(io::Error::other("the server does not answer")),
        length => Ok(length),
    }
}
