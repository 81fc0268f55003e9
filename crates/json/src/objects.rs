//! A deserialiser that reads a struct from an object only.
//!
//! Derived code accepts the fields of a struct as an array, in the order in which the source declares them. A client that
//! sends `["rm", ...]` for `{"command": ...}` has made a mistake, and gets an error.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};

/// Wraps a deserialiser. Only the outermost value is checked: what is inside it is read by the wrapped deserialiser.
pub(crate) struct StructsAreObjects<D>(pub(crate) D);

/// Defines methods that call the wrapped deserialiser.
macro_rules! forward {
    ($($method:ident($($name:ident: $type:ty),*);)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($name,)* visitor)
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for StructsAreObjects<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, OnlyObject(visitor))
    }

    forward! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
        deserialize_ignored_any();
    }
}

/// Passes objects on to the visitor of a struct. Everything else is an error.
struct OnlyObject<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for OnlyObject<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(fields)
    }
}
