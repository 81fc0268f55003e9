//! The reader as types see it: serde's traits. All of this is compiled for each type, so it only calls the parser.

use std::borrow::Cow;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, Unexpected, VariantAccess,
    Visitor,
};
use serde_json::{Error, Number};

use crate::reader::{Container, Reader, number_of};

/// Name under which `serde_json` asks for a value as text, in place of a type's name. A test checks that it still does.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

impl<'de> Reader<'de> {
    fn items<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        if !self.open(Container::Array)? {
            return Err(self.unexpected(&visitor));
        }
        let value = visitor.visit_seq(Items { reader: self, is_first: true })?;
        self.close(Container::Array)?;
        Ok(value)
    }

    fn fields<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        if !self.open(Container::Object)? {
            return Err(self.unexpected(&visitor));
        }
        let value = visitor.visit_map(Fields { reader: self, is_first: true })?;
        self.close(Container::Object)?;
        Ok(value)
    }

    /// Reads a number, or a key that is one.
    fn numeric<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.number()? {
            Some(number) => visit_number(&number, visitor),
            None => Err(self.unexpected(&visitor)),
        }
    }
}

fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, Error> {
    match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => visitor.visit_u64(number),
        (None, Some(number)) => visitor.visit_i64(number),
        (None, None) => visitor.visit_f64(number.as_f64().unwrap_or_default()),
    }
}

/// Defines methods that all read a number.
macro_rules! numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.numeric(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Error;

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_f32 deserialize_f64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'"') => self.deserialize_str(visitor),
            Some(b'{') => self.fields(visitor),
            Some(b'[') => self.items(visitor),
            Some(b'n') => self.deserialize_unit(visitor),
            Some(b't' | b'f') => self.deserialize_bool(visitor),
            _ => self.numeric(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.boolean()? {
            Some(value) => visitor.visit_bool(value),
            None => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.string()? {
            Some(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Some(Cow::Owned(text)) => visitor.visit_string(text),
            None => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.string()? {
            Some(text) => visitor.visit_string(text.into_owned()),
            None => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_byte_buf(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.items(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.null()? { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.null()? { visitor.visit_unit() } else { Err(self.unexpected(&visitor)) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == RAW_VALUE {
            return visitor.visit_map(RawText(Some(self.value_text()?)));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.items(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.items(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.items(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.fields(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.fields(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let has_content = self.open(Container::Object)?;
        if !has_content && self.peek() != Some(b'"') {
            return Err(self.unexpected(&visitor));
        }
        let value = visitor.visit_enum(Variant { reader: self, has_content })?;
        if has_content {
            self.close(Container::Object)?;
        }
        Ok(value)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.string()? {
            Some(text) => visitor.visit_str(&text),
            None => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.value_text()?;
        visitor.visit_unit()
    }
}

/// The items of an array that are still to be read.
struct Items<'a, 'de> {
    reader: &'a mut Reader<'de>,
    is_first: bool,
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        if !self.reader.next(Container::Array, std::mem::take(&mut self.is_first))? {
            return Ok(None);
        }
        seed.deserialize(&mut *self.reader).map(Some)
    }
}

/// The fields of an object that are still to be read.
struct Fields<'a, 'de> {
    reader: &'a mut Reader<'de>,
    is_first: bool,
}

impl<'de> MapAccess<'de> for Fields<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if !self.reader.next(Container::Object, std::mem::take(&mut self.is_first))? {
            return Ok(None);
        }
        seed.deserialize(Key(&mut *self.reader)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        self.reader.colon()?;
        seed.deserialize(&mut *self.reader)
    }
}

/// A key of an object. Types other than strings are read from what the string says, as `serde_json` writes them.
struct Key<'a, 'de>(&'a mut Reader<'de>);

impl<'de> Key<'_, 'de> {
    fn numeric<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let text = self.0.string()?.unwrap_or_default();
        // An escape or a space makes it a text.
        let is_plain = matches!(text, Cow::Borrowed(_)) && text.trim_ascii() == text;
        match number_of(&text).filter(|_| is_plain) {
            Some(number) => visit_number(&number, visitor),
            None => Err(Error::invalid_type(Unexpected::Str(&text), &visitor)),
        }
    }
}

impl<'de> Deserializer<'de> for Key<'_, 'de> {
    type Error = Error;

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_f32 deserialize_f64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.0.deserialize_identifier(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(Variant { reader: self.0, has_content: false })
    }

    serde::forward_to_deserialize_any! {
        bool char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// A variant of an enum: its name, or an object with its name and content.
struct Variant<'a, 'de> {
    reader: &'a mut Reader<'de>,
    has_content: bool,
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let name = seed.deserialize(&mut *self.reader)?;
        if self.has_content {
            self.reader.colon()?;
        }
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        if self.has_content && !self.reader.null()? {
            return Err(self.reader.unexpected(&"unit variant"));
        }
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.content(&"newtype variant")?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.content(&"tuple variant")?.items(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.content(&"struct variant")?.fields(visitor)
    }
}

impl<'a, 'de> Variant<'a, 'de> {
    fn content(self, expected: &'static &'static str) -> Result<&'a mut Reader<'de>, Error> {
        if self.has_content {
            Ok(self.reader)
        } else {
            Err(Error::invalid_type(Unexpected::UnitVariant, expected))
        }
    }
}

/// The text of a value, in the form in which `serde_json` expects it: an object with one field.
struct RawText<'de>(Option<&'de str>);

impl<'de> MapAccess<'de> for RawText<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if self.0.is_none() {
            return Ok(None);
        }
        seed.deserialize(BorrowedStrDeserializer::new(RAW_VALUE)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(BorrowedStrDeserializer::new(self.0.take().unwrap_or("null")))
    }
}
