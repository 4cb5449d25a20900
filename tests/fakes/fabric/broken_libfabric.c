/* A libfabric that loads and is no use: fi_getinfo always fails, or (FAKE_WITHOUT_GETINFO) is not
 * there. */
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>

uint32_t fi_version(void) {
  return FI_VERSION(9, 1);
}
const char* fi_strerror(int code) {
  return code == FI_ENOMEM ? "out of memory, says the fake" : "fake";
}
char* fi_tostr(const void* data, enum fi_type type) {
  (void)data;
  (void)type;
  return NULL;
}
int fi_fabric(struct fi_fabric_attr* attributes, struct fid_fabric** fabric, void* context) {
  (void)attributes;
  (void)fabric;
  (void)context;
  return -FI_ENOSYS;
}
#ifndef FAKE_WITHOUT_GETINFO
int fi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags,
               const struct fi_info* hints, struct fi_info** info) {
  (void)version;
  (void)node;
  (void)service;
  (void)flags;
  (void)hints;
  (void)info;
  return -FI_ENOMEM;
}
#endif
void fi_freeinfo(struct fi_info* info) {
  if (info != NULL) {
    free(info->fabric_attr);
    free(info->domain_attr);
    free(info->ep_attr);
    free(info);
  }
}
struct fi_info* fi_dupinfo(const struct fi_info* info) {
  (void)info;
  struct fi_info* hints = calloc(1, sizeof(*hints));
  hints->fabric_attr = calloc(1, sizeof(*hints->fabric_attr));
  hints->domain_attr = calloc(1, sizeof(*hints->domain_attr));
  hints->ep_attr = calloc(1, sizeof(*hints->ep_attr));
  return hints;
}
