"""Around the network and its heads: long recordings, streams, searches, hypotheses."""
