//! Messages of PostgreSQL's protocol, for scripted servers.

/// Takes a complete message of a client from `input`: its tag and body. The first message of a connection has no tag,
/// and gets zero.
///
/// # Panics
/// If the message is longer than a gigabyte.
pub fn take(input: &mut Vec<u8>, has_started: &mut bool) -> Option<(u8, Vec<u8>)> {
    let head = usize::from(*has_started);
    let length = input.get(head..head + 4)?.first_chunk()?;
    let end = head + u32::from_be_bytes(*length) as usize;
    assert!(end < 1 << 30, "the client sent a message of {end} bytes");
    if input.len() < end {
        return None;
    }
    let message: Vec<_> = input.drain(..end).collect();
    let tag = if *has_started { message[0] } else { 0 };
    *has_started = true;
    Some((tag, message[head + 4..].to_vec()))
}

/// Appends a message of the server.
pub fn put(output: &mut Vec<u8>, tag: u8, body: &[u8]) {
    output.push(tag);
    output.extend((body.len() as u32 + 4).to_be_bytes());
    output.extend(body);
}

/// Appends an error.
pub fn put_error(output: &mut Vec<u8>, severity: &str, code: &str) {
    let body = format!("S{severity}\0V{severity}\0C{code}\0Mscripted\0\0");
    put(output, b'E', body.as_bytes());
}

/// Appends the messages that follow an accepted start.
pub fn put_welcome(output: &mut Vec<u8>) {
    put(output, b'R', &0_u32.to_be_bytes());
    put(output, b'S', b"server_version\x0015.0\0");
    put(output, b'K', &[0; 8]);
    put(output, b'Z', b"I");
}
