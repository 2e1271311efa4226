"""The transducer head: losses and decoders for RNN-T and TDT, native and plain."""
