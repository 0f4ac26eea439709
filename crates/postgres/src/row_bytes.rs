//! The bytes of rows: a result keeps the server's messages, which are walked when values are read.

/// Iterator over the bodies of complete messages, each with a tag and a length in front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_first_chunk::<5>()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let (body, rest) = rest.split_at_checked(length.checked_sub(4)?)?;
        self.0 = rest;
        Some(body)
    }
}

/// Iterator over the fields of a row's message: `None` is NULL. It ends early where a field is cut off.
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The fields of a message's body, which begins with their number.
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Self(body.get(2..).unwrap_or_default())
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.0 = rest;
            return Some(None);
        };
        let (field, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(Some(field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_messages_and_fields_end_the_iteration() {
        assert_eq!(Messages(b"D\0\0\0\x05xD\0\0\0\x06y").collect::<Vec<_>>(), [b"x"]);
        assert_eq!(Messages(b"D\0\0\0\x01").count(), 0);
        let body = b"\0\x03\0\0\0\x01a\xff\xff\xff\xff\0\0\0\x09b";
        assert_eq!(Fields::new(body).collect::<Vec<_>>(), [Some(&b"a"[..]), None]);
        assert_eq!(Fields::new(b"\0").count(), 0);
    }
}
