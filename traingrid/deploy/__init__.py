"""Deploy: custom resources, retained resources, and the check-up of a deployed grid."""
