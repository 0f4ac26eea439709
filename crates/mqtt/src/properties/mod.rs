//! Properties of MQTT 5 packets (§2.2.2).
//!
//! They are validated once as a whole (allowed kinds, and repetitions) and remain encoded, because most readers
//! need at most one property, and a broker forwards them unchanged.

mod property;

use self::property::{SUBSCRIPTION_IDENTIFIER, USER};
use crate::error::Error;
use crate::frame::Kind;
use crate::wire::{Reader, put_variable, variable_length};

pub use self::property::Property;
pub(crate) use self::property::PropertyContext;

/// The properties of a packet, validated and encoded.
///
/// ```
/// use phalanx_mqtt::{Property, PropertyBuffer};
///
/// let mut buffer = PropertyBuffer::new();
/// buffer.push(Property::User("unit", "°C"))?;
/// buffer.push(Property::MessageExpiry(60))?;
/// let properties = buffer.get();
/// assert_eq!(properties.user().collect::<Vec<_>>(), [("unit", "°C")]);
/// assert!(properties.iter().any(|property| property == Property::MessageExpiry(60)));
/// # Ok::<(), phalanx_mqtt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties<'a> {
    bytes: &'a [u8],
    /// A bit for each property present, and [`DISALLOWED`].
    kinds: u64,
}

/// The bit for strings with a disallowed Unicode code point. No property has this number.
const DISALLOWED: u64 = 1 << 63;

impl<'a> Properties<'a> {
    /// No properties.
    pub const NONE: Self = Self { bytes: &[], kinds: 0 };

    /// Decodes the length, and validates the properties.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>, context: PropertyContext) -> Result<Self, Error> {
        let length = reader.variable()?;
        let bytes = reader.take(length)?;
        let kinds = if bytes.is_empty() { 0 } else { check(bytes, context)? };
        Ok(Self { bytes, kinds })
    }

    /// Number of bytes that [`write`](Self::write) appends.
    pub(crate) const fn size(self) -> usize {
        variable_length(self.bytes.len()) + self.bytes.len()
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        put_variable(out, self.bytes.len());
        out.extend_from_slice(self.bytes);
    }

    /// Whether there are no properties.
    pub const fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether all properties are user properties. Constant time.
    pub const fn are_user(self) -> bool {
        self.kinds & !(1 << USER | DISALLOWED) == 0
    }

    /// Whether a string contains a disallowed Unicode code point (§1.5.4). Constant time.
    pub(crate) const fn have_disallowed(self) -> bool {
        self.kinds & DISALLOWED != 0
    }

    /// The properties without reason string and user properties, for a packet that is too long for its
    /// receiver.
    pub(crate) fn without_text(self) -> PropertyBuffer {
        let mut others = PropertyBuffer::new();
        for property in self.iter() {
            if !matches!(property, Property::ReasonString(_) | Property::User(..)) {
                // A decoded or encoded property can be encoded.
                let _ = others.push(property);
            }
        }
        others
    }

    /// Their encoded length in bytes, without the length field.
    pub const fn bytes(self) -> usize {
        self.bytes.len()
    }

    /// Validates properties of a message, as encoded by [`as_bytes`](Self::as_bytes).
    ///
    /// # Errors
    /// If the bytes are not valid properties of a message.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, Error> {
        check(bytes, PropertyContext::for_packet(Kind::Publish)).map(|kinds| Self { bytes, kinds })
    }

    /// The encoded properties without the length field, for storage.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// All properties, in order.
    pub const fn iter(self) -> PropertiesIter<'a> {
        PropertiesIter(Reader(self.bytes))
    }

    /// Names and values of the user properties, in order.
    pub fn user(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let (utf8, mut reader) = (std::str::from_utf8(self.bytes).ok(), Reader(self.bytes));
        std::iter::from_fn(move || {
            loop {
                if let (Some(utf8), Some(&USER)) = (utf8, reader.0.first()) {
                    return user(utf8, &mut reader).ok();
                }
                // The properties were validated, so only the end of input fails.
                if let (_, Property::User(name, value)) = Property::read(&mut reader).ok()? {
                    return Some((name, value));
                }
            }
        })
    }
}

/// Decodes the user property at the start of `reader`, whose end is the end of `whole`. Usually the
/// properties of a packet, including their lengths, are valid UTF-8 as a whole. Validating them once is
/// several times faster than validating each string.
#[inline]
fn user<'a>(utf8: &'a str, reader: &mut Reader<'a>) -> Result<(&'a str, &'a str), Error> {
    reader.byte()?;
    Ok((string(utf8, reader)?, string(utf8, reader)?))
}

#[inline]
fn string<'a>(utf8: &'a str, reader: &mut Reader<'a>) -> Result<&'a str, Error> {
    let length = reader.bytes()?.len();
    let end = utf8.len() - reader.0.len();
    // A boundary inside a character means that the string is not UTF-8.
    let text = utf8.get(end - length..end);
    let text = text.ok_or(Error::malformed("a string is not valid UTF-8"))?;
    if text.as_bytes().contains(&0) {
        return Err(Error::malformed("a string contains NUL"));
    }
    Ok(text)
}

impl<'a> IntoIterator for Properties<'a> {
    type Item = Property<'a>;
    type IntoIter = PropertiesIter<'a>;

    fn into_iter(self) -> PropertiesIter<'a> {
        self.iter()
    }
}

/// The iterator of [`Properties::iter`].
#[derive(Clone, Copy)]
pub struct PropertiesIter<'a>(Reader<'a>);

impl<'a> Iterator for PropertiesIter<'a> {
    type Item = Property<'a>;

    fn next(&mut self) -> Option<Property<'a>> {
        // The properties were validated, so only the end of input fails.
        Property::read(&mut self.0).ok().map(|(_, property)| property)
    }
}

impl std::fmt::Debug for PropertiesIter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

/// Validates properties in this context. Returns a bit for each property present, and [`DISALLOWED`].
fn check(bytes: &[u8], context: PropertyContext) -> Result<u64, Error> {
    let mut reader = Reader(bytes);
    let mut seen_ids = 0u64;
    let utf8 = std::str::from_utf8(bytes).ok();
    while let Some(first) = reader.0.first() {
        let (id, property) = match utf8 {
            Some(utf8) if *first == USER => {
                let (name, value) = user(utf8, &mut reader)?;
                (USER, Property::User(name, value))
            }
            _ => Property::read(&mut reader)?,
        };
        if PropertyContext::allowed(id) & context.0 == 0 {
            return Err(Error::protocol("a property is not allowed in this packet"));
        }
        let bit = 1 << id;
        // A PUBLISH carries the identifiers of all matching subscriptions.
        let is_repeatable = id == USER
            || (id == SUBSCRIPTION_IDENTIFIER
                && context.0 == PropertyContext::for_packet(Kind::Publish).0);
        if seen_ids & bit != 0 && !is_repeatable {
            return Err(Error::protocol("a property occurs twice"));
        }
        seen_ids |= bit;
        if property.has_disallowed() {
            seen_ids |= DISALLOWED;
        }
    }
    Ok(seen_ids)
}

/// A buffer for encoding properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PropertyBuffer {
    bytes: Vec<u8>,
    kinds: u64,
}

impl PropertyBuffer {
    /// An empty buffer.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), kinds: 0 }
    }

    /// Appends a property. Does not check whether the packet may have it.
    ///
    /// # Errors
    /// If a string or value is longer than 65,535 bytes, or a subscription identifier is out of range; then
    /// nothing is appended.
    pub fn push(&mut self, property: Property<'_>) -> Result<(), Error> {
        let before = self.bytes.len();
        property.write(&mut self.bytes).inspect_err(|_| self.bytes.truncate(before))?;
        self.kinds |= 1 << self.bytes[before];
        if property.has_disallowed() {
            self.kinds |= DISALLOWED;
        }
        Ok(())
    }

    /// Appends all of `properties`.
    pub fn append(&mut self, properties: Properties<'_>) {
        self.bytes.extend_from_slice(properties.bytes);
        self.kinds |= properties.kinds;
    }

    /// Removes all properties, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.kinds = 0;
    }

    /// The buffer's capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The properties.
    pub fn get(&self) -> Properties<'_> {
        Properties { bytes: &self.bytes, kinds: self.kinds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(properties: &[Property<'_>]) -> PropertyBuffer {
        let mut buffer = PropertyBuffer::new();
        properties.iter().for_each(|property| buffer.push(*property).unwrap());
        buffer
    }

    #[test]
    fn properties_appear_once_and_in_allowed_packets() {
        let publish = PropertyContext::for_packet(Kind::Publish);
        let ok = buffer(&[
            Property::User("a", "1"),
            Property::User("a", "2"),
            Property::SubscriptionIdentifier(1),
            Property::SubscriptionIdentifier(2),
        ]);
        assert!(check(&ok.bytes, publish).is_ok());
        assert!(
            check(&ok.bytes, PropertyContext::for_packet(Kind::Subscribe)).is_err(),
            "one for a subscription"
        );
        let repeated = buffer(&[Property::TopicAlias(1), Property::TopicAlias(2)]);
        assert!(check(&repeated.bytes, publish).is_err());
        let misplaced = buffer(&[Property::WillDelay(1)]);
        assert!(check(&misplaced.bytes, publish).is_err());
        assert!(check(&misplaced.bytes, PropertyContext::WILL).is_ok());
    }

    #[test]
    fn user_properties_are_read_from_one_text_or_several() {
        let publish = PropertyContext::for_packet(Kind::Publish);
        // A length of 200 is not a UTF-8 character; neither are four bytes of 0xff.
        let long = "l".repeat(200);
        for other in [Property::ContentType("é"), Property::MessageExpiry(0xffff_ffff)] {
            for value in ["1", "°C", "", long.as_str()] {
                let all = buffer(&[Property::User("ü", value), other, Property::User("b", "2")]);
                let checked = check(&all.bytes, publish).map(|kinds| kinds == all.kinds);
                assert_eq!(checked, Ok(true));
                assert!(all.get().user().eq([("ü", value), ("b", "2")]), "{all:?}");
            }
        }
        let user = |name: &[u8], value: &[u8]| {
            let mut bytes = vec![USER];
            for text in [name, value] {
                bytes.extend((text.len() as u16).to_be_bytes());
                bytes.extend(text);
            }
            bytes
        };
        assert!(check(&user(b"a", b"b"), publish).is_ok());
        assert!(check(&user(b"a", b"\0"), publish).is_err(), "NUL");
        assert!(check(&user(b"a", b"\xc3"), publish).is_err(), "a truncated character");
        // Valid UTF-8 as a whole: the second half of the character is the length of the next string.
        let mut split = user(b"a", b"\xc3");
        split.extend(user(b"a", b"b"));
        split[6] = 0xc3;
        assert!(check(&split, publish).is_err());
        let cut = [&[USER, 0, 1, 0xc3][..], &[0xa9, 0]].concat();
        assert!(
            std::str::from_utf8(&cut).is_ok() && check(&cut, publish).is_err(),
            "cut within one"
        );
        assert!(check(&user(b"a", b"b")[..6], publish).is_err(), "it ends early");
    }

    #[test]
    fn buffers_of_user_properties_only_are_recognized() {
        let mut properties = buffer(&[Property::User("a", "1"), Property::User("a", "2")]);
        assert!(properties.get().are_user() && Properties::NONE.are_user());
        let other = buffer(&[Property::SharedAvailable(true)]);
        assert!(!other.get().are_user());
        for mixed in [other.get(), buffer(&[Property::TopicAlias(1)]).get()] {
            let mut all = properties.clone();
            all.append(mixed);
            assert!(!all.get().are_user(), "{all:?}");
            all.clear();
            assert!(all.get().are_user());
        }
        properties.push(Property::MessageExpiry(1)).unwrap();
        let mut bytes = Vec::new();
        properties.get().write(&mut bytes);
        let read =
            Properties::read(&mut Reader(&bytes), PropertyContext::for_packet(Kind::Publish))
                .unwrap();
        assert_eq!((read, read.are_user()), (properties.get(), false));
    }

    #[test]
    fn too_long_properties_are_not_added() {
        let mut buffer = buffer(&[Property::User("a", "b")]);
        let before = buffer.clone();
        assert!(buffer.push(Property::User("a", &"x".repeat(65_536))).is_err());
        assert_eq!(buffer, before);
    }
}
