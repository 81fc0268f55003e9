//! Texts inside replies, so that secrets in them can be redacted.

use std::collections::BTreeMap;

use serde_json::Value;

/// A value with texts that a stranger may have written.
pub trait Texts {
    /// Changes each text.
    fn each_text(&mut self, change: &mut dyn FnMut(&mut String));
}

impl Texts for String {
    fn each_text(&mut self, change: &mut dyn FnMut(&mut String)) {
        change(self);
    }
}

impl<T: Texts> Texts for Option<T> {
    fn each_text(&mut self, change: &mut dyn FnMut(&mut String)) {
        self.iter_mut().for_each(|value| value.each_text(change));
    }
}

impl<T: Texts> Texts for Vec<T> {
    fn each_text(&mut self, change: &mut dyn FnMut(&mut String)) {
        self.iter_mut().for_each(|value| value.each_text(change));
    }
}

impl<T: Texts> Texts for BTreeMap<String, T> {
    fn each_text(&mut self, change: &mut dyn FnMut(&mut String)) {
        self.values_mut().for_each(|value| value.each_text(change));
    }
}

impl Texts for Value {
    fn each_text(&mut self, change: &mut dyn FnMut(&mut String)) {
        match self {
            Self::String(text) => change(text),
            Self::Array(items) => items.iter_mut().for_each(|item| item.each_text(change)),
            Self::Object(fields) => fields.values_mut().for_each(|field| field.each_text(change)),
            Self::Null | Self::Bool(_) | Self::Number(_) => {}
        }
    }
}

/// Implements [`Texts`] for values without texts.
macro_rules! without_texts {
    ($($type:ty)*) => {$(
        impl Texts for $type {
            fn each_text(&mut self, _change: &mut dyn FnMut(&mut String)) {}
        }
    )*};
}

without_texts! { () bool u64 usize }

/// Implements [`Texts`] for structs, by the fields that have some.
macro_rules! texts {
    ($($type:ident { $($field:ident),* })*) => {$(
        impl $crate::Texts for $type {
            fn each_text(&mut self, change: &mut dyn FnMut(&mut String)) {
                $( self.$field.each_text(change); )*
            }
        }
    )*};
}

pub(crate) use texts;
